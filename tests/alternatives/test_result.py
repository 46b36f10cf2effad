"""What comes back: JSON, suppression, and the surface, whose points are tests of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.alternatives import ImprovabilityResult
from isonomy.errors import UsageError
from support.same import same

NUMBERS = ("accuracy", "fairness", "round_pvalues", "selected", "undefined", "pvalue")


def test_json_round_trip(data: dict[str, Any], ask: dict[str, Any]) -> None:
    ask |= {"candidate": None, "rule": "linear", "features": ["x1", "x2", "lab"]}
    result = iso.improvability(data, **ask)
    again = iso.from_json(result.to_json())
    same(result, again, NUMBERS, rel=0, abs=0)
    assert again.summary() == result.summary()
    np.testing.assert_array_equal(again.surface().pvalues, result.surface().pvalues)
    assert result.recommended is not None
    assert again.recommended.accuracy.tolist() == result.recommended.accuracy.tolist()
    assert again.cutoffs is again.recommended.cutoff is None  # they may be the scores of single people
    stored = iso.from_json(result.to_json(rows=True))
    same(result, stored, ("cutoffs", "recommended.cutoff"), rel=0, abs=0)
    with pytest.raises(UsageError, match="again"):
        again.surface(accuracy_gains=[0.0, 0.1])
    with pytest.raises(UsageError, match="again"):
        again.recommended.decide(data)
    assert iso.from_json(result.surface().to_json()).fairness_gain == result.supported_fairness_gain


def test_suppression(data: dict[str, Any], ask: dict[str, Any]) -> None:
    result = iso.improvability(data, **ask)
    shown = result.suppressed(10)
    same(shown, result, NUMBERS, rel=0, abs=0)
    assert shown.comparisons is None
    assert shown.cutoffs is None
    if result.recommended is not None:
        assert shown.recommended is not None
        assert shown.recommended.cutoff is None
        assert shown.recommended.algorithm is None
        same(shown.recommended, result.recommended, ("accuracy", "fairness", "selected"), rel=0, abs=0)
    hidden = result.suppressed(10_000)
    assert np.isnan(hidden.accuracy[..., :2]).all()
    assert np.isnan(hidden.fairness[..., :2]).all()
    assert set(hidden.status) == {"suppressed"}
    assert hidden.comparisons is None
    assert hidden.recommended is None


def test_a_report_has_one_row_per_thing_compared(data: dict[str, Any], ready: dict[str, Any]) -> None:
    asked = iso.improvability(data, **ready)
    whole = asked.table()
    compared, tested = asked.pages().values()
    names = [f"accuracy {name}" for name in asked.accuracy_components]
    names += [f"unfairness {name}" for name in asked.fairness_utilities]
    for place, name in enumerate(names):
        words = ("candidate", "status_quo", "pvalue", "gain", "low", "high")
        columns = ("alternative", "status_quo", "pvalue", "gain", "ci_low", "ci_high")
        for word, column in zip(words, columns, strict=True):
            np.testing.assert_equal(compared[column][place :: len(names)], whole[f"{name} {word}"])
    assert not any("_" in str(text) for text in compared["criterion"])
    np.testing.assert_equal(tested["adjusted_pvalue"], asked.adjusted)
    assert set(asked.units()) >= {"selected_candidate", "selected_status_quo"}


@pytest.fixture(scope="module")
def result(data: dict[str, Any]) -> ImprovabilityResult:
    return iso.improvability(
        data,
        outcome="need",
        groups="race",
        status_quo="cost_score",
        candidate="need_score",
        capacity=0.1,
        evidence="paper",
        splits=3,
        resamples=300,
        rng=7,
    )


@pytest.mark.parametrize(("a", "f"), [(0.0, 0.0), (0.1, 0.3), (-0.2, 0.8), (0.5, 0.0)])
def test_every_point_is_the_test_at_that_point(
    data: dict[str, Any], ask: dict[str, Any], result: ImprovabilityResult, a: float, f: float
) -> None:
    point = iso.improvability(data, **ask, accuracy_gain=a, fairness_gain=f)
    surface = result.surface(accuracy_gains=[a, 2.0], fairness_gains=[f, 2.0])
    assert surface.pvalues[0, 0] == point.pvalue


def test_default_grid_is_the_papers(result: ImprovabilityResult) -> None:
    surface = result.surface()
    assert surface.accuracy_gains[[0, -1]].tolist() == [-1, 1]
    assert surface.fairness_gains[[0, -1]].tolist() == [0, 1]
    assert surface.pvalues.shape == (201, 101)
    at_zero = surface.pvalues[np.flatnonzero(np.isclose(surface.accuracy_gains, 0))[0], 0]
    assert at_zero == result.pvalue
    assert len(surface.to_frame()) == 201 * 101


def test_crossings_are_where_the_test_stops_rejecting(
    data: dict[str, Any], ask: dict[str, Any], result: ImprovabilityResult
) -> None:
    gain = result.supported_fairness_gain
    assert 0 < gain < 1
    assert iso.improvability(data, **ask, fairness_gain=gain - 1e-6).reject
    assert not iso.improvability(data, **ask, fairness_gain=gain + 1e-6).reject
    more = result.supported_accuracy_gain
    assert iso.improvability(data, **ask, accuracy_gain=more - 1e-6).reject
    assert not iso.improvability(data, **ask, accuracy_gain=more + 1e-6).reject


def test_contour_meets_the_crossings(result: ImprovabilityResult) -> None:
    surface = result.surface()
    assert surface.contour[0] == pytest.approx(result.supported_accuracy_gain, abs=0.011)
    above = surface.contour >= 0
    assert surface.fairness_gains[above].max() == pytest.approx(result.supported_fairness_gain, abs=0.011)


def test_nothing_supported(data: dict[str, Any], ask: dict[str, Any]) -> None:
    swapped = ask | {"status_quo": "need_score", "candidate": "cost_score"}
    result = iso.improvability(data, **swapped)
    assert np.isnan(result.supported_fairness_gain)
    assert np.isnan(result.surface().fairness_gain)
    assert result.surface().verdict == "inconclusive"
    assert "no cut in unfairness is supported" in result.surface().summary()


@pytest.mark.parametrize("grid", [[0.1, 0.0], [], [np.nan], [[0.0]]])
def test_bad_grids(result: ImprovabilityResult, grid: Any) -> None:
    with pytest.raises(UsageError, match="increasing"):
        result.surface(accuracy_gains=grid)


def test_difference_grid_is_in_the_utilitys_unit(data: dict[str, Any], ask: dict[str, Any]) -> None:
    surface = iso.improvability(data, **ask, scale="difference").surface()
    assert surface.accuracy_gains[-1] > 2


def test_resamples_are_stored_on_request(result: ImprovabilityResult) -> None:
    assert iso.from_json(result.to_json()).comparisons is None
    again = iso.from_json(result.to_json(rows=True))
    np.testing.assert_array_equal(again.surface([0.0, 0.07], [0.1]).pvalues, result.surface([0.0, 0.07], [0.1]).pvalues)


def test_arrays_are_read_only(result: ImprovabilityResult) -> None:
    for array in (result.accuracy, result.curves.accuracy, result.curves.fairness_gains):
        assert not array.flags.writeable
