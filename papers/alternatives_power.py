"""Appendix E, Figure 5: power of the fairness test as the candidate approaches perfect fairness.

    python papers/alternatives_power.py [replications] [picture.svg]

Means (1.52, eta), covariance [[10, 6.85], [6.85, 10.83]], l in {100, 200, 400}, 2,000 bootstrap draws, level 0.05; 250
replications by default, and the paper's 5,000 with ISONOMY_FULL=1. A shift in eta shifts every resampled mean, so one
bootstrap of a sample serves all eta.
Published: size controlled for eta >= 1.52; power rises as eta falls, with a slight dip near 0 for l = 100 and 200.
A second table, not in the paper: size on the boundary of the null when a cut of the unfairness is required.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from isonomy.alternatives.rules.comparison import Equivalence, compare_resamples, excess
from isonomy.alternatives.rules.influence import RateMoments
from isonomy.alternatives.rules.utilities import READY, Criteria
from isonomy.results import theme
from ledger import DRAWN, FULL, record

MEAN, ALPHA, DRAWS, REPLICATIONS = 1.52, 0.05, 2_000, 5_000 if FULL else 250
COVARIANCE = np.array([[10.0, 6.85], [6.85, 10.83]])
ETAS = np.array([0.0, 0.125, 0.25, 0.5, 0.75, 1.0, 1.25, 1.4, 1.52, 1.64, 1.75])
FORMS = ("paper", "two_one_sided", "equivalence")
CUTS = np.array([0.0, 0.3, 0.5, 0.7, 0.8, 0.9])  # required cuts; on the boundary of the null, eta = (1 - cut) 1.52
CASES = [(eta, 0.0) for eta in ETAS] + [((1 - cut) * MEAN, cut) for cut in CUTS]  # mean gap, required cut


def pvalue(means: np.ndarray, resampled: np.ndarray, form: str, cut: float) -> float:
    """The fairness p-value of the library for gaps with these means: group r has the gap, group b has 0."""
    utility = READY["outcome_among_selected"]
    criteria = Criteria(utility, (utility,), ("r", "b"))

    def sums(m: np.ndarray) -> np.ndarray:
        u = np.stack([m, np.zeros_like(m)], axis=-1)
        return np.stack([u, np.ones_like(u)], axis=-2)[..., None, :, :, :]

    requirements = compare_resamples(criteria, sums(means), sums(resampled), (0,), published=form == "paper")
    return float(requirements.fairness[0].pvalue(cut))


def closed_form(means: np.ndarray, covariance: np.ndarray, size: int, cut: float) -> float:
    """The default form: both sides together, from the normal distribution."""
    known = RateMoments(np.array([abs(means[0]), means[1]]), covariance, size, (0,))
    base, gap = np.eye(2)
    shared = float((base - gap) @ covariance @ (base + gap))
    upper, lower = (excess(known, base - side * gap, base) for side in (1, -1))
    return float(Equivalence(upper, lower, shared, 0.0).pvalue(cut))


def rejections(size: int, replications: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Share of rejections: (forms, etas) if no cut is required, (forms, cuts) on the boundary.

    The form that needs no bootstrap uses separate samples.
    """
    root = np.linalg.cholesky(COVARIANCE)
    count = np.zeros((len(FORMS), len(CASES)))
    for _ in range(replications):
        sample = rng.standard_normal((size, 2)) @ root.T + [MEAN, 0.0]
        weights = rng.multinomial(size, np.full(size, 1 / size), size=DRAWS) / size
        means, resampled = sample.mean(axis=0), weights @ sample
        for j, (eta, cut) in enumerate(CASES):
            shift = np.array([0.0, eta])
            for i, form in enumerate(FORMS[:2]):
                count[i, j] += pvalue(means + shift, resampled + shift, form, cut) <= ALPHA
    count[2] = closed_form_rejections(size, replications, np.random.default_rng([size, 1]))
    share = count / replications
    return share[:, : len(ETAS)], share[:, len(ETAS) :]


def closed_form_rejections(size: int, replications: int, rng: np.random.Generator) -> np.ndarray:
    """How often the default form rejects in each case."""
    root, count = np.linalg.cholesky(COVARIANCE), np.zeros(len(CASES))
    for _ in range(replications):
        sample = rng.standard_normal((size, 2)) @ root.T + [MEAN, 0.0]
        means, covariance = sample.mean(axis=0), np.cov(sample.T, bias=True) / size
        for j, (eta, cut) in enumerate(CASES):
            count[j] += closed_form(means + np.array([0.0, eta]), covariance, size, cut) <= ALPHA
    return count


def draw(curves: dict[int, np.ndarray], path: Path) -> None:
    import altair as alt

    columns: dict[str, list[object]] = {"eta": [], "rejections": [], "l": [], "form": []}
    for size, share in curves.items():
        for i, form in enumerate(FORMS):
            for eta, value in zip(ETAS, share[i], strict=True):
                columns["eta"].append(float(eta))
                columns["rejections"].append(float(value))
                columns["l"].append(f"l = {size}")
                columns["form"].append(form)
    base = alt.Chart(theme.data(columns), width=420, height=300).encode(
        x=alt.X("eta:Q", title="mean gap of the candidate (status quo 1.52)"),
        y=alt.Y("rejections:Q", title="share of rejections"),
        color=alt.Color("l:N", title=None, sort=[f"l = {size}" for size in curves]),
    )
    lines = base.mark_line().encode(strokeDash=alt.StrokeDash("form:N", title="test")) + base.mark_circle(opacity=1)
    level = alt.Chart(theme.data({"y": [ALPHA]})).mark_rule(color=theme.RULE, strokeDash=[2, 2]).encode(y="y:Q")
    path.parent.mkdir(exist_ok=True)
    path.write_text(theme.to_svg(theme.finish(lines + level)))


def table(title: str, heads: list[str], rows: dict[int, np.ndarray]) -> None:
    print(f"\n{title}\n")
    print("| l | test | " + " | ".join(heads) + " |")
    print("|---|---|" + "---|" * len(heads))
    for size, share in rows.items():
        for i, form in enumerate(FORMS):
            print(f"| {size} | {form} | " + " | ".join(f"{v:.3f}" for v in share[i]) + " |")


def main(replications: int, picture: str | None) -> None:
    curves, boundary = {}, {}
    for size in (100, 200, 400):
        curves[size], boundary[size] = rejections(size, replications, np.random.default_rng(size))
    print(f"Appendix E: share of rejections at {ALPHA}, {replications:,} replications, {DRAWS:,} draws.")
    table("Power; the null holds from eta = 1.52 up.", [f"eta {eta:g}" for eta in ETAS], curves)
    table("Size on the boundary when a cut is required.", [f"cut {cut:g}" for cut in CUTS], boundary)
    margin = ALPHA + 3 * np.sqrt(ALPHA * (1 - ALPHA) / replications)
    worst = max(float(share[:, ETAS >= MEAN].max()) for share in curves.values())
    print(f"\nSize for eta >= {MEAN}: at most {worst:.3f}; limit {margin:.3f} (alpha + 3 standard errors).")
    dips = [float(share[0].max() - share[0, 0]) for share in curves.values()]  # toward perfect fairness
    why = f"size at most {worst:.3f}; toward a gap of 0, power falls by {dips[0]:.3f}, {dips[1]:.3f} and {dips[2]:.3f} "
    why += f"for l = 100, 200 and 400 (published: with few rows only); {replications:,} replications"
    record("Alternatives, Figure 5", worst <= margin and min(dips[:2]) > 0 and dips[2] < 0.01, why)
    if picture:
        draw(curves, Path(picture))


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else REPLICATIONS,
        sys.argv[2] if len(sys.argv) > 2 else str(DRAWN / "alternatives_power.svg"),
    )
