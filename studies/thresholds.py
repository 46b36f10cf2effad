"""`equalize_thresholds` on groups whose truth is known, compared with fairlearn's ThresholdOptimizer.

python -m studies.thresholds [--tables N] [--only TEXT]        writes docs/scores/thresholds_simulations.md
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from scipy import optimize, stats
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

import isonomy as iso
from isonomy.numerics.arrays import FloatArray
from studies.lines import Asked, Line, Page, Run, Section, at_most, each, main

Curve = Callable[[FloatArray], FloatArray]
PRESENT, FRESH, TABLES = 0.5, 200_000, 1_000
TARGETS = ("outcome_at_margin", "selection_rate", "tpr", "fpr", "equalized_odds", "predictive_value")
METRICS = {"equalized_odds": ("tpr", "fpr")}


def same(s: FloatArray) -> FloatArray:
    """The outcome probability is the score."""
    return s


def less(s: FloatArray) -> FloatArray:
    """The outcome is below the score."""
    return np.asarray(s**1.5)


def steep(s: FloatArray) -> FloatArray:
    """Curved within a bandwidth."""
    return np.asarray(1 / (1 + np.exp(-10 * (s - 0.5))))


def steep_less(s: FloatArray) -> FloatArray:
    """A fifth below `steep`."""
    return 0.8 * steep(s)


# For each group: the parameters of the Beta density of its scores, and its curve.
Design = tuple[tuple[tuple[float, float], Curve], ...]
EQUAL: Design = (((2, 3), same), ((2, 3), same))
SHIFTED: Design = (((2, 3), same), ((3, 2), same))  # equal outcomes at each score, different scores
LESS: Design = (((2, 3), same), ((3, 2), less))
STEEP: Design = (((2, 3), steep), ((3, 2), steep))
STEEP_LESS: Design = (((2, 3), steep), ((3, 2), steep_less))
SIX: Design = (*[((2, 3), same)] * 5, ((2, 3), less))


def sample(rng: np.random.Generator, design: Design, n: int) -> dict[str, Any]:
    """``n`` rows per group."""
    g = np.repeat(np.arange(len(design)), n)
    s = np.concatenate([rng.beta(a, b, n) for (a, b), _ in design])
    p = np.concatenate([curve(s[g == k]) for k, (_, curve) in enumerate(design)])
    return {"s": s, "g": g, "y": (rng.random(s.size) < p).astype(np.int8)}


@cache
def fresh(design: Design) -> dict[str, Any]:
    """The `FRESH` rows on which thresholds are evaluated."""
    return sample(np.random.default_rng(0), design, FRESH // len(design))


@cache
def counts(design: Design, metric: str) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
    """For each group: sorted scores of the rows in a metric's condition, and rows and positives from each score up."""
    rows = fresh(design)
    about = {"tpr": rows["y"] == 1, "fpr": rows["y"] == 0}.get(metric, np.ones(rows["g"].size, dtype=bool))
    groups = []
    for g in range(len(design)):
        mine = np.flatnonzero(about & (rows["g"] == g))
        mine = mine[np.argsort(rows["s"][mine])]
        numbers = (np.append(np.cumsum(part[::-1])[::-1], 0.0) for part in (np.ones(mine.size), rows["y"][mine]))
        groups.append((rows["s"][mine], *numbers))
    return groups


def measured(design: Design, metric: str, rule: Any) -> FloatArray:
    """The metric of each group on the fresh rows; outcomes at the margin come from the true curve."""
    if metric == "outcome_at_margin":
        return np.array([float(curve(t)) for (_, curve), t in zip(design, rule.thresholds_, strict=True)])
    values = []
    limits = zip(rule.thresholds_, rule.lottery_, rule.probability_, strict=True)
    for (score, rows, hits), (high, low, probability) in zip(counts(design, metric), limits, strict=True):
        all_rows, positive = (
            probability * part[np.searchsorted(score, low)] + (1 - probability) * part[np.searchsorted(score, high)]
            for part in (rows, hits)
        )
        values.append(positive / all_rows if metric == "predictive_value" else all_rows / rows[0])
    return np.array(values)


def gap(design: Design, target: str, rule: Any) -> float:
    """The largest difference between groups in the target metrics."""
    return max(float(np.ptp(measured(design, metric, rule))) for metric in METRICS.get(target, (target,)))


def fitted(rng: np.random.Generator, design: Design, n: int, target: Any, **options: Any) -> Any:
    """Thresholds from ``n`` rows per group."""
    rows = sample(rng, design, n)
    rule = iso.GroupThresholds(target, threshold=PRESENT, groups=1, **options)
    return rule.fit(np.column_stack([rows["s"], rows["g"]]), rows["y"])


@cache
def before(design: Design, target: str) -> float:
    """The gap at the present threshold."""
    rule = iso.GroupThresholds(threshold=PRESENT, groups=1)
    rule.thresholds_ = rule.lottery_ = np.full(len(design), PRESENT)
    rule.probability_ = np.ones(len(design))
    return gap(design, target, rule)


def gaps(rng: np.random.Generator, design: Design, target: str, n: int, change: str) -> list[float]:
    """The gap before and after, and whether the groups are shown to differ."""
    rule = fitted(rng, design, n, target, change=change)
    return [before(design, target), gap(design, target, rule), float(rule.pvalue_ <= 0.05)]


def off_aim(rng: np.random.Generator, target: Any) -> list[float]:
    """The largest distance of a group's metric on fresh rows from its aim, with thresholds from 400,000 rows."""
    odds = target == "equalized_odds"
    rule = fitted(rng, LESS, 200_000, target, randomize=odds, random_state=0)
    if odds:
        return [gap(LESS, target, rule) / 2]  # distance of either group from their midpoint
    return [float(np.abs(measured(LESS, target, rule) - rule.target_).max())]


CONSTRAINTS = {
    "selection_rate": "demographic_parity",
    "tpr": "true_positive_rate_parity",
    "fpr": "false_positive_rate_parity",
    "equalized_odds": "equalized_odds",
}


def of_both(rng: np.random.Generator, target: Any) -> list[float]:
    """Gap, share selected and accuracy on fresh rows, ours and fairlearn's, with 5,000 rows per group."""
    from fairlearn.postprocessing import ThresholdOptimizer
    from sklearn.base import BaseEstimator, ClassifierMixin

    class Score(ClassifierMixin, BaseEstimator):
        """A classifier whose probability is the score, in the first column."""

        classes_ = np.array([0, 1])

        def __sklearn_is_fitted__(self) -> bool:
            return True

        def fit(self, X: Any, y: Any) -> Any:
            return self

        def predict_proba(self, X: Any) -> Any:
            return np.column_stack([1 - X[:, 0], X[:, 0]])

    rows, new = sample(rng, LESS, 5_000), fresh(LESS)
    X, Z = (np.column_stack([part["s"], part["g"]]) for part in (rows, new))
    odds = target == "equalized_odds"
    ours = iso.GroupThresholds(target, threshold=PRESENT, groups=1, randomize=odds).fit(X, rows["y"])
    theirs = ThresholdOptimizer(
        estimator=Score(), constraints=CONSTRAINTS[target], prefit=True, predict_method="predict_proba", grid_size=1000
    ).fit(X, rows["y"], sensitive_features=rows["g"])
    numbers = []
    about = {"tpr": new["y"] == 1, "fpr": new["y"] == 0, "selection_rate": new["y"] >= 0}
    for chance in (ours.predict_chance(Z), theirs._pmf_predict(Z, sensitive_features=new["g"])[:, 1]):
        apart = [
            np.ptp([chance[about[metric] & (new["g"] == g)].mean() for g in (0, 1)])
            for metric in METRICS.get(target, (target,))
        ]
        right = np.where(new["y"] == 1, chance, 1 - chance).mean()
        numbers += [max(apart), chance.mean(), right]
    return numbers


def holds(rng: np.random.Generator, target: Any, n: int) -> list[float]:
    """The share of thresholds whose interval covers the true one."""
    rows = sample(rng, LESS, n)
    result = iso.equalize_thresholds(
        rows,
        outcome="y",
        score="s",
        groups="g",
        threshold=PRESENT,
        target=target,
        method=iso.curves(resamples=200),
        rng=rng,
    )
    true = truth(target)
    return [float(np.mean((result.thresholds_low <= true) & (true <= result.thresholds_high)))]


@cache
def truth(target: str) -> FloatArray:
    """The thresholds of `LESS` that make the groups equal and select as many as now, from densities and curves."""
    s = np.linspace(0, 1, 200_001)
    up = [stats.beta.sf(s, *law) for law, _ in LESS]
    positive = []
    for (_, curve), share in zip(LESS, up, strict=True):
        held = curve(0.5 * (s[1:] + s[:-1])) * -np.diff(share)
        positive.append(np.append(np.cumsum(held[::-1])[::-1], 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        values = {
            "selection_rate": up,
            "tpr": [part / part[0] for part in positive],
            "predictive_value": [part / share for part, share in zip(positive, up, strict=True)],
            "outcome_at_margin": [curve(s) for _, curve in LESS],
        }[target]
    rising = 1 if values[0][0] < values[0][-2] else -1
    now = sum(float(np.interp(PRESENT, s, share)) for share in up)

    def thresholds(value: float) -> list[float]:
        return [float(np.interp(value, own[:-1][::rising], s[:-1][::rising])) for own in values]

    def surplus(value: float) -> float:
        return sum(float(np.interp(t, s, share)) for t, share in zip(thresholds(value), up, strict=True)) - now

    ends = (max(min(own[0], own[-2]) for own in values), min(max(own[0], own[-2]) for own in values))
    return np.array(thresholds(optimize.brentq(surplus, *ends)))


def unequal(rng: np.random.Generator, target: Any, n: tuple[int, int]) -> list[float]:
    """Whether equal groups of different sizes are shown to differ."""
    rows = [sample(rng, EQUAL[:1], size) for size in n]
    s, y = (np.concatenate([part[name] for part in rows]) for name in ("s", "y"))
    rule = iso.GroupThresholds(target, threshold=PRESENT, groups=1)
    return [float(rule.fit(np.column_stack([s, np.repeat([0, 1], n)]), y).pvalue_ <= 0.05)]


def clustered(rng: np.random.Generator, target: Any) -> list[float]:
    """Whether equal groups are shown to differ if users have 5 rows each, with similar scores and outcomes."""
    users = 2_000
    user = np.repeat(np.arange(users), 5)
    s = np.repeat(rng.beta(2, 3, users), 5) * 0.7 + 0.3 * rng.beta(2, 3, 5 * users)
    y = rng.random(5 * users) < np.clip(s + np.repeat(rng.normal(0, 0.1, users), 5), 0, 1)
    g = np.repeat(rng.integers(0, 2, users), 5)
    rule = iso.GroupThresholds(target, threshold=PRESENT, groups=1, user=2)
    return [float(rule.fit(np.column_stack([s, g, user]), y).pvalue_ <= 0.05)]


def calibration_errors(rng: np.random.Generator, curve: Curve, n: int, odds: bool) -> list[float]:
    """Mean squared errors of calibrated scores, local-linear and Nadaraya-Watson."""

    def scale(p: FloatArray) -> FloatArray:
        return (np.log(p / (1 - p)) if odds else p)[:, None]

    s, new = rng.beta(2, 3, n), rng.beta(2, 3, 4_000)
    y = (rng.random(n) < curve(s)).astype(np.int8)
    models = [iso.GroupCalibrator(name).fit(scale(s), y) for name in ("near_unbiased", "published")]
    return [float(np.mean((model.predict(scale(new)) - curve(new)) ** 2)) for model in models]


def on_deciles(rng: np.random.Generator, n: int) -> list[float]:
    """Errors at ten scores of GroupCalibrator, logistic regression on the score (Platt) and isotonic regression."""
    s = np.arange(1.0, 11.0)[:, None] / 10.0
    drawn = rng.integers(0, 10, n)
    y = (rng.random(n) < steep(s[drawn, 0])).astype(np.int8)
    platt = LogisticRegression(C=np.inf).fit(s[drawn], y)
    isotonic = IsotonicRegression(out_of_bounds="clip").fit(s[drawn, 0], y)
    curves = iso.GroupCalibrator().fit(s[drawn], y).predict(s), platt.predict_proba(s)[:, 1], isotonic.predict(s[:, 0])
    return [float(error) for curve in curves for error in curve - steep(s[:, 0])]


def error_and_bias(outcomes: FloatArray) -> list[float]:
    """The root mean square error of each method, and its largest bias at any score."""
    errors = outcomes.reshape(len(outcomes), 3, 10)
    each_method = np.sqrt((errors**2).mean(axis=(0, 2))), np.abs(errors.mean(axis=0)).max(axis=1)
    return [float(value) for values in zip(*each_method, strict=True) for value in values]


def root_mean(outcomes: FloatArray) -> list[float]:
    """Square roots of the means."""
    return [float(value) for value in np.sqrt(outcomes.mean(axis=0))]


def lines() -> tuple[Run, ...]:
    """Gaps before and after. Asked: at most 0.01 more than before for equal groups, and less than before otherwise."""
    runs = []
    designs: dict[str, tuple[Design, tuple[str, ...]]] = {
        "equal groups": (EQUAL, TARGETS),
        "equal curves, other scores": (SHIFTED, TARGETS),
        "s against s^1.5, other scores": (LESS, TARGETS),
        "steep curves, equal, other scores": (STEEP, TARGETS[:1]),
        "steep curves, a fifth less, other scores": (STEEP_LESS, TARGETS),
        "six groups, one of them s^1.5": (SIX, TARGETS),
    }
    for name, (design, targets) in designs.items():
        for target in targets:
            for change in ("shown", "all") if target in ("outcome_at_margin", "tpr") else ("shown",):
                ask = partial(gaps, design=design, target=target, n=5_000, change=change)
                now = before(design, target)
                limit = Asked(now + 0.01 if now < 0.01 else now, "most", exact=True)
                asked = (None, limit if change == "shown" else None)
                runs.append(Run((Line((name, target, change), asked),), each(ask), TABLES))
    return tuple(runs)


PAGE = Page(
    "scores/thresholds_simulations",
    (
        Section(
            "Gap between groups before and after, 5,000 rows per group",
            ("design", "target", "change"),
            ("true gap before", "mean true gap after", "shown to differ"),
            lines(),
        ),
        Section(
            "Distance from the aim on 200,000 fresh rows, thresholds from 400,000",
            ("target",),
            ("mean of the largest distance",),
            tuple(
                Run((Line((target,), (Asked(0.005, "most", exact=True),)),), each(partial(off_aim, target=target)), 100)
                for target in TARGETS
            ),
            digits=4,
        ),
        Section(
            "Compared with fairlearn's ThresholdOptimizer, s against s^1.5, 5,000 rows per group",
            ("target",),
            (
                *("gap, ours", "selected, ours", "accuracy, ours"),
                *("gap, fairlearn", "selected, fairlearn", "accuracy, fairlearn"),
            ),
            tuple(Run((Line((target,)),), each(partial(of_both, target=target)), 100) for target in CONSTRAINTS),
        ),
        Section(
            "Error of GroupCalibrator by smoother (root mean square)",
            ("curve", "scores", "rows"),
            ("local-linear, the default", "nadaraya-watson, the paper's"),
            tuple(
                Run(
                    (Line((name, "log-odds" if odds else "probabilities", f"{n:,}")),),
                    each(partial(calibration_errors, curve=curve, n=n, odds=odds)),
                    40,
                    root_mean,
                )
                for name, curve in (("s", same), ("s^1.5", less), ("steep", steep))
                for odds in (False, True)
                for n in (500, 2_000, 10_000)
            ),
            digits=4,
        ),
        Section(
            "Error of GroupCalibrator on deciles, and largest bias at any of them; steep curve",
            ("rows",),
            tuple(f"{name}{what}" for name in ("GroupCalibrator", "Platt", "isotonic") for what in ("", ": bias")),
            tuple(
                Run((Line((f"{n:,}",)),), each(partial(on_deciles, n=n)), TABLES, error_and_bias)
                for n in (1_000, 5_000)
            ),
            digits=4,
        ),
        Section(
            "Size of the test at the present threshold, nominal 5 %",
            ("design", "target"),
            ("shown to differ",),
            tuple(
                Run((Line((name, target), (at_most(0.05),)),), each(partial(ask, target=target)), TABLES)
                for name, ask in (
                    ("5,000 against 500 rows", partial(unequal, n=(5_000, 500))),
                    ("2,000 users with 5 rows each", clustered),
                )
                for target in TARGETS
            ),
        ),
        Section(
            "Intervals of the thresholds, s against s^1.5, nominal 95 %",
            ("target", "rows per group"),
            ("held the true threshold",),
            tuple(
                Run((Line((target, f"{n:,}"), (Asked(0.95),)),), each(partial(holds, target=target, n=n)), 100)
                for target in ("tpr", "selection_rate", "predictive_value", "outcome_at_margin")
                for n in (10_000,)
            ),
        ),
    ),
)


if __name__ == "__main__":
    main(PAGE)
