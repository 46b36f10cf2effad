"""Whole clusters in halves and in resamples: what must not matter, and what must."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import UsageError
from isonomy.frames import open_source
from isonomy.results import Status
from isonomy.results.call import QUESTIONS
from isonomy.treatment.effects.clusters import Clustered
from isonomy.treatment.plan import CorrectionsPlan
from isonomy.treatment.tally import tally_corrections
from support.tables import experiment

ROLES: dict[str, Any] = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}
NUMBERS = ("bias", "bias_se", "bias_pvalue", "error", "error_pvalue", "factor", "less_pvalue", "bias_left")


def table(rows: int = 4_000) -> dict[str, Any]:
    made = experiment(rows, error={"b": 0.4})
    rng = np.random.default_rng(3)
    return made | {"id": np.arange(rows), "shop": rng.integers(0, 150, rows), "w": rng.uniform(0.5, 2, rows)}


def evaluated(made: dict[str, Any], **options: Any) -> iso.CorrectionsResult:
    return iso.evaluate_corrections(made, **{**ROLES, "splits": 2, "resamples": 40, "rng": 1, **options})


def clustered(made: dict[str, Any], **reading: Any) -> Clustered:
    source = open_source(made, **reading)
    asked = QUESTIONS["evaluate_corrections"].planned(source, ROLES)
    assert isinstance(asked, CorrectionsPlan)
    (one,) = tally_corrections(source, asked, np.random.default_rng(0)).clustered
    return one


def test_doubled_weights_change_nothing() -> None:
    made = table()
    one, two = evaluated(made, weight="w"), evaluated({**made, "w": 2 * made["w"]}, weight="w")
    for name in NUMBERS:
        np.testing.assert_allclose(getattr(two, name), getattr(one, name), rtol=1e-8)
    assert not np.allclose(one.error, evaluated(made).error)


def test_rows_that_are_clusters_of_their_own_are_rows() -> None:
    """The same halves and the same remainders; standard errors up to what resampling leaves."""
    made = table()
    plain, own = (
        evaluated(made, strategies=["mean"], splits=1, resamples=1_000, **option) for option in ({}, {"cluster": "id"})
    )
    np.testing.assert_allclose(own.bias, plain.bias, atol=1e-12)
    np.testing.assert_allclose(own.error, plain.error, atol=1e-12)
    np.testing.assert_allclose(own.bias_se, plain.bias_se, rtol=0.12)
    np.testing.assert_array_equal(own.n, plain.n)


def test_copied_rows_in_one_cluster_are_one_row() -> None:
    made = table()
    copies = {name: np.concatenate([values, values]) for name, values in made.items()}
    plain, twice = evaluated(made, cluster="id"), evaluated(copies, cluster="id")
    for name in NUMBERS:
        np.testing.assert_allclose(getattr(twice, name), getattr(plain, name), rtol=1e-6, atol=1e-9)


def test_a_cluster_is_never_in_both_halves() -> None:
    one = clustered(table(), cluster="shop")
    for shop in range(150):
        assert len(np.unique(one.bucket[one.cluster == shop])) == 1
    parts = [one.part(np.arange(first, 20, 2)) for first in (0, 1)]
    assert sum(part.lines.arm.size for part in parts) == 4_000
    np.testing.assert_allclose(sum(part.moments().n for part in parts), one.moments().n)


def test_resampled_variance_is_that_of_cluster_totals() -> None:
    """Of the mean outcome of a group's controls: the variance of the ratio of cluster totals, by hand."""
    made = table()
    one = clustered(made, cluster="shop", weight="w")
    ((group, _),) = one.lines.groups
    draws = one.resampled(4_000, np.random.default_rng(2)).mean[:, 0, 0, 0]
    here = (group == 0) & (one.lines.arm == 0)
    y, w, shop = one.lines.factors["y"][here], one.lines.weight[here], one.cluster[here]
    mean = (w * y).sum() / w.sum()
    totals = np.bincount(shop, w * (y - mean), 150)
    by_hand = np.sqrt(150 / 149 * (totals**2).sum()) / w.sum()
    assert draws.std() == pytest.approx(by_hand, rel=0.05)  # Monte Carlo: 1.1 %, the ratio's curvature beside it
    assert one.moments().mean[0, 0, 0] == pytest.approx(mean)


def test_groups_of_few_clusters_are_listed() -> None:
    made = table()
    made["shop"] = np.where(made["group"] == "c", made["id"] % 14, made["id"])
    result = evaluated(made, cluster="shop", strategies=["mean"])
    assert result.status[2] is Status.FEW_CLUSTERS
    assert np.isnan(result.bias[..., 2]).all()
    assert np.isfinite(result.bias[..., :2]).all()


def test_a_single_cluster_answers_nothing() -> None:
    result = evaluated({**table(), "shop": np.zeros(4_000, dtype=int)}, cluster="shop", strategies=["mean"])
    assert set(result.status) == {Status.FEW_CLUSTERS}
    assert np.isnan(result.bias).all()
    assert not any(result.shown)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"split": "independent"}, "not available with split"),
        ({"rest_correction": "single"}, "not available with split"),
        ({"rest": "pooled"}, "^weight, cluster, propensity, given"),
        ({"estimator": "regression", "features": ["x"]}, "^weight, cluster, propensity, given"),
        ({"count": "k"}, "^count: lines that stand for several rows cannot be split"),
        ({"cluster": "group"}, "^cluster: 'group' is also a group"),
    ],
)
def test_what_is_refused(options: dict[str, Any], words: str) -> None:
    made = table(400)
    with pytest.raises(UsageError, match=words):
        evaluated({**made, "k": np.full(400, 2)}, weight="w", **options)
