"""P-values of a family of groups under their nulls, with the dependence they have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import UsageError
from isonomy.inference.effect import Against, Hypothesis, null_pvalues
from isonomy.inference.multiplicity import square_root


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less", "outside"])
def test_each_p_value_is_as_small_as_it_says(alternative: Against) -> None:
    covariance = np.array([[4.0, -1.0], [-1.0, 1.0]])
    width = np.array([2.0, 3.0]) if alternative == "outside" else np.zeros(2)
    null = Hypothesis(0.0, 0.0, alternative)
    drawn = null_pvalues(square_root(covariance), null, width, np.array([1.0, -1.0]), np.random.default_rng(1))
    # Four standard errors of a share of 10,000 draws; an interval null is never rejected more often.
    share = (drawn <= 0.05).mean(axis=0)
    assert (share <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 10_000)).all()
    assert alternative == "outside" or (share >= 0.05 - 4 * np.sqrt(0.05 * 0.95 / 10_000)).all()


def table(rng: np.random.Generator, n: int = 1_500) -> dict[str, Any]:
    return {
        "race": rng.choice(list("abc"), size=n, p=[0.6, 0.25, 0.15]),
        "sex": rng.choice(["f", "m"], size=n),
        "selected": (rng.random(n) < 0.3).astype(int),
    }


def test_max_t_lies_between_the_p_value_and_holms() -> None:
    data = table(np.random.default_rng(2))
    options: dict[str, Any] = {"metric": "selection_rate", "prediction": "selected", "groups": ["race", "sex"]}
    options |= {"depth": 2}
    result, holm = (iso.flag(data, **options, adjust=how, rng=3) for how in ("max-t", "holm"))
    assert (result.adjusted_pvalue <= holm.adjusted_pvalue).all()
    assert (result.adjusted_pvalue >= result.pvalue - 0.015).all()
    assert result.provenance.seed is not None
    again = iso.flag(data, **options, adjust="max-t", rng=3)
    assert result.adjusted_pvalue.tolist() == again.adjusted_pvalue.tolist()
    # The two sexes against the population are one test: nothing to adjust for.
    pair = iso.flag(data, **(options | {"groups": "sex"}), adjust="max-t", rng=3)
    assert pair.adjusted_pvalue == pytest.approx(pair.pvalue, abs=0.015)


def test_weights_clusters_strata_and_scales_have_their_own_covariance() -> None:
    data = table(np.random.default_rng(4)) | {"w": np.tile([1.0, 2.0], 750), "c": np.arange(1_500) // 5}
    options: dict[str, Any] = {"metric": "selection_rate", "prediction": "selected", "groups": "race", "rng": 1}
    for more in ({"weight": "w"}, {"cluster": "c"}, {"given": "sex"}, {"scale": "ratio", "tolerance": 0.8}):
        result, holm = (iso.flag(data, **options, **more, adjust=how) for how in ("max-t", "holm"))
        assert (result.adjusted_pvalue <= holm.adjusted_pvalue).all()
    several = iso.flag(
        data | {"y": data["selected"]},
        **(options | {"metric": ["selection_rate", "accuracy"]}),
        outcome="y",
        adjust="max-t",
    )
    assert len(several.adjusted_pvalue) == 6
    with pytest.raises(UsageError, match="max-t"):
        iso.flag(data, **options, reference="highest", adjust="max-t")


def test_siblings_are_adjusted_on_their_own() -> None:
    data = table(np.random.default_rng(5))
    options: dict[str, Any] = {"metric": "selection_rate", "prediction": "selected"}
    both = iso.flag(data, **options, groups=["race", "sex"], adjust="bh-siblings")
    alone = [iso.flag(data, **options, groups=name, adjust="bh").adjusted_pvalue for name in ("race", "sex")]
    assert both.adjusted_pvalue == pytest.approx(np.concatenate(alone), rel=1e-12)


def test_a_dependence_is_told_where_it_matters() -> None:
    data = table(np.random.default_rng(6))
    result = iso.flag(data, metric="selection_rate", prediction="selected", groups=["race", "sex"], depth=2)
    assert not any("dependen" in sentence for sentence in result.warnings)
