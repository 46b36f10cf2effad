"""An option of all questions about scores: how curves are smoothed, compared and tested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from isonomy.options import Also, Number, Option, Positive
from isonomy.scores.smoothing.kernels import Kernel

Level = Literal["user", "aggregate"]
Comparison = Annotated[
    Literal["omnibus", "orthogonal", "cumulative", "trend", "residual", "published"],
    Also({"nadaraya_watson": "published"}),
]
EdgeFit = Annotated[Literal["local-quadratic", "local-linear", "published"], Also({"nadaraya_watson": "published"})]
Kind = Annotated[
    Literal["omnibus", "orthogonal", "cumulative", "trend", "residual", "local-quadratic", "local-linear", "published"],
    Also({"nadaraya_watson": "published"}),
]


@dataclass(frozen=True)
class CurvesOption(Option):
    """How the curves of a score are smoothed, compared and tested.

    A value of ``method`` in the questions about scores and in `GroupThresholds`; each refuses what has no effect in it.

    Parameters
    ----------
    kind : str, optional
        What a plain value of ``method`` stands for: the test in `predictive_parity`, the fit in `marginal_outcomes`.
    level : {"user", "aggregate"}, optional
        ``"user"``: each user has one vote, split evenly over the user's rows. ``"aggregate"``: each row has one vote;
        users, if given, still determine the variance. Default: "user" if ``user`` is given.
    grid : float or sequence of float, optional
        Scores at which groups are compared, in increasing order. Default: the 1, 5, 10, ..., 95, 99 % quantiles. A grid
        also limits a test to scores from its first to its last point; the verdict says nothing about other scores.
    bandwidth : float, sequence of float or "cross-validation", optional
        Width of the kernel: a number, or one per grid point. Default: the paper's rule,
        max(1.06 sqrt(s (1 - s)) n^(-1/5), n^(-1/5)/10), where n is the number of users (or rows) of the average group
        (at a threshold, above it) and [0, 1] is scaled to the range of most scores. ``"cross-validation"``: that rule
        times a factor from 1/4 to 2 that predicts the outcomes of a bin of scores best from the other bins.
    kernel : {"gaussian", "gaussian4", "gaussian6"}, default "gaussian"
        The kernel. ``"gaussian4"`` and ``"gaussian6"`` are of higher order.
    order : bool or float, optional
        Whether the order of scores is tested too. A number is the tolerance of that test: how much better outcomes at
        lower scores may be. Default: True, with the question's tolerance; False with "published" or a single score.
    resamples : int, optional
        Number of normal draws for sup-t, the cumulative test and the order (default 2000), where no row is resampled;
        of bootstrap samples in `equalize_thresholds` (400) and `GroupThresholds` (none).
    """

    name: ClassVar[str] = "curves"
    kind: Kind | None = None
    level: Level | None = None
    grid: float | Sequence[float] | None = None
    bandwidth: Positive | Sequence[Positive] | Literal["cross-validation"] | None = None
    kernel: Kernel = "gaussian"
    order: bool | Positive | None = None
    resamples: Annotated[int, Number(least=100, most=100_000, whole=True)] | None = None


curves = CurvesOption


def moved(*names: str, value: str = "{}") -> dict[str, str]:
    """The new place of keywords of earlier versions."""
    return {name: f"method=iso.curves({name}={value})" for name in names}
