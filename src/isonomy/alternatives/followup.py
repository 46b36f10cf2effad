"""What follows a test: the alternative to adopt, and the p-values over every gain that could be required."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from isonomy.alternatives import words
from isonomy.alternatives.options import Scale
from isonomy.alternatives.rules.algorithm import Algorithm, People, Selection, applied
from isonomy.alternatives.rules.trials import Cases, Trial
from isonomy.errors import UsageError
from isonomy.frames import Grouping, Request, Source, open_source
from isonomy.frames.expressions import text
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.results import Evidence, column, storable
from isonomy.results.storage import OF_ROWS

if TYPE_CHECKING:
    import altair as alt


# ---- the alternative to adopt


def intersections(source: Source, groups: object) -> Grouping:
    """The intersections of several columns: improvability compares one set of disjoint groups."""
    return source.grouping(groups, depth=len(source.grouping(groups).dimensions))


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """The columns an algorithm reads: its features, the levels of text features, the groups if it uses them."""

    features: tuple[str, ...]
    levels: Mapping[str, tuple[str, ...]]
    groups: object
    labels: tuple[str, ...]

    def read(self, source: Source) -> People:
        source.require(**{f"features[{name}]": name for name in self.features})
        numeric = {name: name for name in self.features if name not in self.levels}
        keys = {f"text {name}": text(name) for name in self.levels}
        grouping = None if self.groups is None else intersections(source, self.groups)
        rows = source.rows(Request(grouping, numeric=numeric, keys=keys, labels={name: name for name in self.levels}))
        features = dict(rows.columns)
        for name, levels in self.levels.items():
            known = {level: float(code) for code, level in enumerate(levels)}
            features[name] = np.array([known.get(str(value), -1.0) for value in rows.columns[f"text {name}"]])
        group = np.zeros(rows.size, dtype=np.intp)
        if grouping is not None:
            partition = rows.partitions[-1]
            unknown = [group.label for group in partition.groups if group.label not in self.labels]
            if unknown:
                raise UsageError(f"decide: groups {unknown} were not in the data the algorithm was made from.")
            group = np.array([self.labels.index(g.label) for g in partition.groups], dtype=np.intp)[partition.codes]
        return People({name: features[name] for name in self.features}, group, self.labels, self.levels)


@storable
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Recommendation:
    """The algorithm that the rule makes from all rows (or the ready candidate), to be run on new rows.

    It can be pickled; JSON does not keep the algorithm itself. ``accuracy`` and ``fairness`` hold the candidate's and
    the status quo's values on the rows the algorithm was fitted on, so they are not independent evidence. The cut-off
    is the mean of those on the rows judged, which no rule had seen (with a bootstrap, that of the training rows).
    """

    rule: str
    accuracy: FloatArray
    fairness: FloatArray
    selected: FloatArray
    cutoff: float | None = field(metadata=OF_ROWS)  # may be the score of a single person
    labels: tuple[str, ...]
    independent: bool = False
    algorithm: Algorithm | None = field(default=None, repr=False, metadata=OF_ROWS)
    inputs: Inputs | None = field(default=None, repr=False, metadata=OF_ROWS)

    @property
    def estimator_(self) -> object:
        """The fitted scikit-learn estimator, or what else the rule returned."""
        decide: object = self._fitted[0].decide
        while isinstance(decide, partial) and "model" in decide.keywords:  # perhaps of another algorithm's score
            decide = decide.keywords["model"]
        return getattr(decide, "model", decide)

    @property
    def cutoff_(self) -> float | None:
        """Scores above it are selected; None if the algorithm makes the decisions."""
        return None if self.cutoff is None or np.isnan(self.cutoff) else self.cutoff

    def score(self, data: object) -> FloatArray:
        """The scores of the rows of ``data``, or their decisions if the algorithm has no cut-off.

        ``data`` needs the features, and the group columns only if the rule uses them.
        """
        algorithm, inputs = self._fitted
        return np.asarray(algorithm(inputs.read(open_source(data))), dtype=float)

    def decide(self, data: object) -> FloatArray:
        """Decisions (0/1, or prices) for the rows of ``data``."""
        scores = self.score(data)
        return scores if self.cutoff_ is None else (scores > self.cutoff_).astype(float)

    @property
    def _fitted(self) -> tuple[Algorithm, Inputs]:
        if self.algorithm is None or self.inputs is None:
            raise UsageError("decide: the algorithm is not stored in JSON; run improvability again with its seed.")
        return self.algorithm, self.inputs


def ready_values(people: People, *, model: str) -> FloatArray:
    """A candidate that is a column of the data."""
    return people.features[model]


def recommend(
    cases: Cases, trials: Sequence[Trial], columns: Mapping[str, str], groups: object, rng: np.random.Generator
) -> Recommendation | None:
    """Fit the rule on all rows and measure it on the same rows (section 3.1); None if the rule finds nothing.

    Among several ready candidates (``columns`` by name), the one with the smallest p-value is recommended.
    """
    criteria, name, masses = cases.criteria, cases.rule_name, cases.masses(cases.weight)
    before = cases.select(cases.status_quo, masses, "status_quo")
    if cases.rule is None:
        best = list(columns)[
            int(np.argmin([trial["columns"]["pvalues"][-1] for trial in trials])) if cases.several else 0
        ]
        name = best if cases.several else name
        values, column = cases.candidates[best], columns[best]
        algorithm, inputs = Algorithm(partial(ready_values, model=column)), Inputs((column,), {}, None, criteria.labels)
    else:
        algorithm = cases.fit_rule(cases.weight, before.share, rng)
        algorithm, values = applied(algorithm, name, cases.people)
        if algorithm.decide is None:
            return None
        used = groups if getattr(cases.rule, "group_aware", True) else None
        inputs = Inputs(tuple(cases.people.features), cases.people.levels, used, criteria.labels)
    if criteria.priced or cases.rule is None or cases.bootstrap or not criteria.capacity:
        after = cases.select(values, masses, f"rule {name!r}")
    else:
        cutoff = float(np.nanmean([trial["cutoffs"][0] for trial in trials]))
        after = Selection((values > cutoff).astype(float), np.zeros(len(values)), cutoff=cutoff)
    accuracy, fairness = np.split(cases.measure((before, after)), [len(criteria.accuracies)])
    return Recommendation(
        rule=name,
        accuracy=accuracy,
        fairness=fairness,
        selected=np.array([np.average(decided.share, weights=masses) for decided in (after, before)]),
        cutoff=after.cutoff,
        labels=criteria.labels,
        algorithm=algorithm,
        inputs=inputs,
    )


# ---- other gains


@storable
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SurfaceResult(Evidence):
    """The p-value at every point of a grid of required gains, with the contour of alpha and its crossings.

    The lines run over fairness gains first, then accuracy gains. A point is ``supported`` if its p-value is at most
    ``alpha``. The contour crosses an accuracy gain of 0 at ``supported_fairness_gain`` and a fairness gain of 0 at
    ``supported_accuracy_gain``; both are NaN if the test does not reject even without a required gain.
    """

    method: ClassVar[str] = words.METHOD
    references: ClassVar[tuple[str, ...]] = words.REFERENCES
    never_shown: ClassVar[tuple[str, ...]] = words.SURFACE_LIMITS

    accuracy_gain: FloatArray = column("Required gain in accuracy")
    fairness_gain: FloatArray = column("Required cut in unfairness")
    pvalue: FloatArray = column()
    supported: BoolArray = column("Supported")
    alpha: float
    scale: Scale
    supported_fairness_gain: float
    supported_accuracy_gain: float

    @property
    def grids(self) -> tuple[FloatArray, FloatArray]:
        """The accuracy gains and the fairness gains."""
        return np.unique(self.accuracy_gain), np.unique(self.fairness_gain)

    @property
    def contour(self) -> FloatArray:
        """For each fairness gain, the accuracy gain up to which every smaller one is supported; NaN if none is."""
        gains, cuts = self.grids
        steps = np.cumprod(self.supported.reshape(len(gains), len(cuts)), axis=0).sum(axis=0)
        return np.where(steps > 0, gains[np.maximum(steps, 1) - 1], np.nan)

    def findings(self) -> tuple[str, ...]:
        """The two crossings."""
        return words.supported(self)

    def plot(self) -> alt.TopLevelMixin:
        """Heat map with the contour and the crossings."""
        from isonomy.alternatives.charts import surface_chart
        from isonomy.results.theme import finish

        return finish(surface_chart(self))
