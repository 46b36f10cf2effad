"""Fairness in a test suite: see `isonomy.integrations.testing`."""

from isonomy.integrations.testing import assert_no_violation

__all__ = ["assert_no_violation"]
