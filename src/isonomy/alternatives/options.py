"""Options of `improvability` that have options of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from isonomy.errors import UsageError
from isonomy.options import Draws, Finite, Form, Fraction, Number, Option

Scale = Literal["ratio", "difference"]
Required = float | Mapping[str, float]


@dataclass(frozen=True)
class Fits(Option):
    """Options of fitting that change no number."""

    n_jobs: Annotated[int, Number(whole=True, unit="-1 for every core")] = field(default=1, compare=False, kw_only=True)
    progress: bool = field(default=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        Option.__post_init__(self)
        if self.n_jobs == 0:
            raise UsageError("n_jobs: 0 is not allowed; give a number of processes, or -1 for every core.")


@dataclass(frozen=True)
class Crossfit(Fits):
    """Decide every row by rules fitted without it, and test once, on all rows.

    Parameters
    ----------
    folds : int, default 5
        The number of parts; each is decided by a rule fitted on the others.
    repeats : int, default 3
        How often the folds are drawn; decisions are averaged.
    n_jobs : int, default 1
        Processes; -1 for every core. The numbers do not depend on it.
    progress : bool, default False
        Show a progress bar.
    """

    name: ClassVar[str] = "crossfit"
    folds: Annotated[int, Number(least=2, whole=True)] = 5
    repeats: Draws = 3


@dataclass(frozen=True)
class Splits(Fits):
    """Split the rows at random, fit on one part, test on the other; repeat, and merge the p-values.

    Parameters
    ----------
    rounds : int, default 7
        How often the rows are split.
    train_fraction : float, default 0.5
        The share of rows in the training part.
    resamples : int, optional
        Test by a bootstrap with this many resamples: cut-offs are learned from the training part, and the p-value is
        twice the median over rounds. By default the test is in closed form, cut-offs are those of the test part, and
        rounds are merged as exchangeable p-values.
    published : bool, default False
        Use the paper's bootstrap of the absolute gap, which over-rejects if the required gap is within about three
        standard errors of 0, and whose p-values can be 0. ``method="published"`` is
        ``splits(7, resamples=10_000, published=True)``.
    n_jobs, progress : int and bool, optional
        As in `crossfit`.
    """

    name: ClassVar[str] = "splits"
    rounds: Draws = 7
    train_fraction: Fraction = 0.5
    resamples: Draws | None = None
    published: bool = False

    def __post_init__(self) -> None:
        Fits.__post_init__(self)
        if self.published and self.resamples is None:
            raise UsageError("published: the paper's procedure is a bootstrap; give resamples too, or leave it out.")


PUBLISHED = Splits(7, resamples=10_000, published=True)
Method = Crossfit | Splits | None  # None: ready candidates, tested once on all rows


@dataclass(frozen=True)
class Gain(Option):
    """How much better an alternative must be.

    Parameters
    ----------
    accuracy : float or mapping, default 0
        The required gain in accuracy: 0.1 asks for more than 1.1 times the status quo's (``scale="ratio"``), or for a
        difference of more than 0.1 (``scale="difference"``). A negative gain allows a loss. A number, or a mapping by
        group.
    fairness : float or mapping, default 0
        The required cut in unfairness: 0.1 asks for less than 0.9 times the status quo's, or for a difference of more
        than 0.1. A number, or a mapping by fairness utility.
    margin : float, default 0
        The loss of accuracy that still counts as "as accurate", fixed beforehand: 0.01 is one percent of the status
        quo's (``scale="ratio"``), or one hundredth of the utility's unit. A group whose decisions do not change meets
        any margin.
    scale : {"ratio", "difference"}, default "ratio"
        Whether gains are relative to the status quo, or differences in the utility's unit.
    """

    name: ClassVar[str] = "gain"
    accuracy: Required = 0.0
    fairness: Required = 0.0
    margin: Annotated[float, Number(least=0)] = 0.0
    scale: Scale = "ratio"

    def __post_init__(self) -> None:
        Option.__post_init__(self)
        accuracy, fairness = (
            tuple(part.values()) if isinstance(part, Mapping) else (part,) for part in (self.accuracy, self.fairness)
        )
        ratio = self.scale == "ratio"
        if ratio and min(accuracy, default=0.0) <= -1:
            raise UsageError(f"accuracy: {self.accuracy!r}; a loss of everything requires nothing. Give more than -1.")
        if ratio and max(fairness, default=0.0) >= 1:
            raise UsageError(
                f"fairness: {self.fairness!r}; unfairness cannot fall by all of itself or more. Give less than 1."
            )
        if ratio and self.margin >= 1:
            raise UsageError(f"margin: {self.margin:g}; a loss of everything requires nothing. Give less than 1.")
        if self.margin and self.accuracy:
            raise UsageError("margin, accuracy: give one of them; a margin allows a loss, a gain requires more.")


@dataclass(frozen=True)
class Protected(Option):
    """One-sided unfairness: only gaps at the expense of one group count.

    Parameters
    ----------
    group : str or mapping
        The group: its label, its value, or a mapping such as ``{"race": "Black"}``.
    utility : str, Utility, mapping, or list of them, optional
        Utilities that must all become less unequal, as ``fairness`` has them. By default the accuracy utility.
    disadvantage : {"lower", "higher"}, optional
        Whether the group is at a disadvantage if its utility is lower than another's, or higher. By default, whichever
        is worse for the utility.
    """

    name: ClassVar[str] = "protected"
    group: Annotated[object, Form("group")]
    utility: Annotated[object, Form("utilities")] = None
    disadvantage: Literal["lower", "higher"] | None = None


@dataclass(frozen=True)
class Above(Option):
    """Select scores strictly above a threshold, instead of a capacity.

    Parameters
    ----------
    threshold : float
        Scores above it are selected.
    """

    name: ClassVar[str] = "above"
    threshold: Finite


@dataclass(frozen=True)
class GroupAware(Option):
    """Let a rule use the group as a feature.

    Parameters
    ----------
    rule : str, estimator or list
        A rule by name, an estimator, or a list of them.
    """

    name: ClassVar[str] = "group_aware"
    rule: Annotated[object, Form("rule")]


crossfit, splits, gain, protected, above, group_aware = Crossfit, Splits, Gain, Protected, Above, GroupAware
