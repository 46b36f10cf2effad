"""The alternative to adopt: the rule fitted again on all rows, if the test rejects (section 3.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from isonomy.alternatives.rules.algorithm import Algorithm, People, applied
from isonomy.alternatives.rules.cutoffs import Selection
from isonomy.alternatives.rules.named import ShiftedScore
from isonomy.alternatives.rules.trials import Cases, Terms, Trial, fit_rule, measure, select
from isonomy.errors import UsageError
from isonomy.frames import Grouping, Request, Source, open_source
from isonomy.frames.expressions import text
from isonomy.numerics.arrays import FloatArray
from isonomy.results import storable
from isonomy.results.storage import OF_ROWS


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
        """The rows of another table as the algorithm sees them, in the order of the table."""
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
        while isinstance(decide, ShiftedScore):  # made from another algorithm's score
            decide = decide.model
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


@dataclass(frozen=True, slots=True)
class ReadyColumn:
    """A candidate that is a column of the data."""

    column: str

    def __call__(self, people: People) -> FloatArray:
        """One number per person."""
        return people.features[self.column]


def recommend(
    cases: Cases,
    terms: Terms,
    trials: Sequence[Trial],
    columns: Mapping[str, str],
    groups: object,
    rng: np.random.Generator,
) -> Recommendation | None:
    """Fit the rule on all rows and measure it on the same rows; None if the rule finds nothing.

    Among several ready candidates (``columns`` by name), the one with the smallest p-value is recommended.
    """
    criteria, name, masses = terms.criteria, terms.rule_name, cases.masses(cases.weight)
    before = select(cases.status_quo, terms, masses, "status_quo")
    if terms.rule is None:
        best = list(columns)[int(np.argmin([trial["pvalue"].max() for trial in trials])) if terms.several else 0]
        name = best if terms.several else name
        values, column = cases.candidates[best], columns[best]
        algorithm, inputs = Algorithm(ReadyColumn(column)), Inputs((column,), {}, None, criteria.labels)
    else:
        algorithm = fit_rule(cases, terms, cases.weight, before.share, rng)
        algorithm, values = applied(algorithm, name, cases.people)
        if algorithm.decide is None:
            return None
        used = groups if getattr(terms.rule, "group_aware", True) else None
        inputs = Inputs(tuple(cases.people.features), cases.people.levels, used, criteria.labels)
    if criteria.priced or terms.rule is None or terms.bootstrap or not criteria.capacity:
        after = select(values, terms, masses, f"rule {name!r}")
    else:
        cutoff = float(np.nanmean([trial["cutoffs"][0] for trial in trials]))
        after = Selection((values > cutoff).astype(float), np.zeros(len(values)), cutoff=cutoff)
    accuracy, fairness = np.split(measure(cases, criteria, (before, after)), [len(criteria.accuracies)])
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
