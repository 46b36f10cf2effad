"""Cells: codes that can be taken apart again, and names for what they hold."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.transport.program import cells as module
from isonomy.transport.program.cells import Attribute, Coding, total

CODING = Coding(
    attributes=(Attribute("race", ("a", "b", "c"), ("race=a", "race=b", "race=c")), Attribute("", ("old",), ("old",))),
    outcome=True,
    u_names=("score",),
    u=(np.array([0.5, 2.0]),),
)


@pytest.mark.parametrize("counted", [0, 2**22])
def test_codes_come_apart_again(counted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By counting and by sorting."""
    monkeypatch.setattr(module, "CODES", counted)
    rng = np.random.default_rng(0)
    race, old = rng.integers(0, 3, 500), rng.integers(-1, 1, 500)
    outcome, selected = rng.integers(0, 2, 500), rng.integers(0, 2, 500)
    u = rng.choice([0.5, 2.0], 500)
    cell, codes = CODING.dense(CODING.code([race, old], [outcome, selected], [u]))
    cells = CODING.cells(codes, total(cell, None, codes.size))
    assert cells.rows == 500
    assert (np.diff(codes) > 0).all()
    assert (cells.codes[0][cell] == race).all()
    assert (cells.codes[1][cell] == old).all()
    assert cells.outcome is not None
    assert (cells.outcome[cell] == outcome).all()
    assert (cells.selected[cell] == selected).all()
    assert (cells.u[cell, 0] == u).all()
    assert (cells.side[cell] == 2 * selected - 1).all()


def test_names_of_cells() -> None:
    none = [np.array([0]), np.array([1])]
    code = CODING.code([np.array([2]), np.array([-1])], none, [np.array([2.0])])
    assert CODING.cells(code, np.ones(1)).names == ["race=c & not old"]
    alone = Coding((), False, ("women", "men"), (np.array([0.0, 1.0]), np.array([0.0, 1.0])))
    code = alone.code([], [np.array([1])], [np.array([1.0]), np.array([0.0])])
    cells = alone.cells(code, np.ones(1))
    assert cells.names == ["women=1 & men=0"]
    assert cells.outcome is None
