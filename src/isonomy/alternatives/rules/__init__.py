"""The mathematics of the test: utilities, rules that find candidates, the bootstrap of both, and what it supports."""

from isonomy.alternatives.rules.named import NAMES

__all__ = ["NAMES"]
