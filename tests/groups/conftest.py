"""The table most tests of the method begin with."""

from __future__ import annotations

import pytest

from support.tables import Columns, applicants


@pytest.fixture(scope="session")
def lender() -> Columns:
    """600 decisions: three races, two sexes, rates that differ, and a real-valued loss."""
    return applicants()
