"""Solvers that return a status, tails that keep their precision, resampling over cells, multiplicity."""
