"""The mathematics of the projection: distances, criteria, the linear program, and what chance does to its value."""
