"""The mathematics of the projection: distances, criteria, the linear program, its law, and rows by passes."""
