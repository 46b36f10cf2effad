"""What was asked of an alternative, checked against the schema; and what it comes to once the groups are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from isonomy.alternatives.rules.algorithm import SelectionRule
from isonomy.alternatives.rules.bootstrap import PvalueForm
from isonomy.alternatives.rules.criteria import Criteria, FairnessTest, Scale
from isonomy.alternatives.rules.named import selection_rule
from isonomy.alternatives.rules.rounds import Merge
from isonomy.alternatives.rules.utilities import Utility, UtilityLike, accuracy_utility, fairness_utilities
from isonomy.alternatives.wording import CANDIDATE
from isonomy.errors import MissingRole, UnknownOption, UsageError
from isonomy.frames import Group, Grouping, Request, Source
from isonomy.frames.expressions import is_text, number, text
from isonomy.numerics.arrays import FloatArray
from isonomy.options import shown

Gain = float | Mapping[str, float]
Weights = Literal["pooled"] | Mapping[str, float]
Disadvantage = Literal["lower", "higher"]
Evidence = Literal["whole", "crossfit", "splits", "paper"]
_MERGES: Mapping[str, Merge] = {
    "whole": "smallest",
    "crossfit": "smallest",
    "splits": "exchangeable",
    "paper": "median",
}
WEIGHT, CLUSTER = "weight of a row", "cluster of a row"
_WORSE: Mapping[str, Disadvantage] = {"higher": "lower", "lower": "higher"}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Plan:
    """What was asked. `settle` completes what depends on the groups, which only the rows can name."""

    request: Request
    columns: Mapping[str, str]  # what is read of each line: the argument, and the column it names
    groups: object
    features: tuple[str, ...]
    texts: tuple[str, ...]  # the features that are not numbers
    by_row: bool
    criteria: Criteria  # without labels, weights, accuracy gains and the protected group
    accuracy_gain: Gain
    margin: float
    accuracy_weights: Weights | None
    protected: object
    candidates: tuple[str, ...]  # the names of ready ones
    rule: SelectionRule | None  # None: the candidates are columns
    rule_name: str
    group_aware: bool
    capacity: float | None
    threshold: float | None
    evidence: Evidence
    tried: tuple[Mapping[str, str | float], ...]
    folds: int
    repeats: int
    splits: int
    train_fraction: float
    resamples: int
    alpha: float
    pvalue_form: PvalueForm
    min_size: int
    n_jobs: int
    progress: bool

    @property
    def requests(self) -> tuple[Request, ...]:
        """The grouped pass of a test that fits nothing; features, weights and clusters are read row by row."""
        return () if self.by_row else (self.request,)

    def settle(self, groups: Sequence[Group]) -> Criteria:
        """The criteria, with what was said of groups in the order of ``groups``, and gains less the margin."""
        weights, gain = self.accuracy_weights, self.accuracy_gain
        criteria = replace(
            self.criteria,
            labels=tuple(group.label for group in groups),
            weights=_by_group("accuracy_weights", groups, weights) if isinstance(weights, Mapping) else weights,
            protected=None if self.protected is None else _code("protected", groups, self.protected),
        )
        if isinstance(gain, Mapping):
            return replace(criteria, accuracy_gains=tuple(_by_group("accuracy_gain", groups, gain).tolist()))
        return replace(criteria, accuracy_gains=(float(gain) - self.margin,) * len(criteria.accuracies))

    @property
    def attempts(self) -> int:
        """How many alternatives were tried in all: each counts in the p-value."""
        return max(1, len(self.candidates)) + len(self.tried)

    @property
    def merge(self) -> Merge:
        """How the p-values of rounds, or of candidates, become one."""
        return _MERGES[self.evidence]

    def training_share(self, criteria: Criteria) -> float:
        """The share of rows that train; 0 where nothing is chosen on them, and every row is tested.

        That is so for one test of a ready candidate with no cut-off to learn and no pair of groups to choose.
        """
        idle = self.rule is None and self.splits == 1 and self.capacity is None and len(criteria.pairs) == 1
        return 0.0 if idle else self.train_fraction


def idle_roles(options: Mapping[str, object]) -> set[str]:
    """Roles that these options would not look at: a ready candidate needs no features."""
    return set() if options.get("candidate") is None else {"features"}


def plan(
    source: Source,
    *,
    outcome: str,
    groups: object,
    status_quo: str,
    features: Sequence[str] | str | None,
    candidate: str | Sequence[str] | Mapping[str, str] | None,
    rule: object,
    group_aware: bool,
    capacity: float | None,
    threshold: float | None,
    accuracy: UtilityLike,
    fairness: UtilityLike | Sequence[UtilityLike] | None,
    accuracy_gain: Gain,
    fairness_gain: Gain,
    margin: float,
    scale: Scale,
    accuracy_weights: Weights | None,
    protected: object,
    disadvantage: Disadvantage | None,
    fairness_test: FairnessTest | None,
    evidence: Evidence | None,
    tried: Sequence[Mapping[str, str | float]] | None,
    folds: int | None,
    repeats: int | None,
    splits: int | None,
    train_fraction: float | None,
    resamples: int | None,
    alpha: float,
    pvalue_form: PvalueForm,
    min_size: int,
    n_jobs: int,
    progress: bool,
) -> Plan:
    """Check what was asked against itself and against the schema; no row is read."""
    names = tuple([features] if isinstance(features, str) else features or ())
    if capacity is not None and threshold is not None:
        raise UsageError("capacity, threshold: give one of them; both turn scores into decisions.")
    if n_jobs == 0:
        raise UsageError("n_jobs: 0 is not allowed; give a number of processes, or -1 for every core.")
    if (rule is None) == (candidate is None):
        raise MissingRole("rule, candidate: give one of them; a rule finds the alternative, a candidate is one.")
    if candidate is not None and (names or group_aware):
        unused = "features" if names else "group_aware"
        raise UsageError(f"{unused}: nothing is fitted where the candidate is ready; leave it out, or give a rule.")
    if disadvantage is not None and protected is None:
        raise UsageError("disadvantage: says which gaps count against the protected group; give protected too.")
    _check_accuracies(accuracy_gain, accuracy_weights, scale)
    if scale == "ratio" and margin >= 1:
        raise UsageError(f"margin: {margin:g}; a loss of everything requires nothing. Give less than 1.")
    if margin and accuracy_gain:
        raise UsageError("margin, accuracy_gain: give one of them; a margin allows a loss, a gain asks for more.")
    ready = _candidates(candidate)
    known = _evidence(evidence, bool(ready), splits)
    used: dict[Evidence, dict[str, object]] = {
        "crossfit": {"folds": folds, "repeats": repeats},
        "splits": {"splits": splits, "train_fraction": train_fraction},
        "paper": {"splits": splits, "train_fraction": train_fraction, "resamples": resamples},
        "whole": {},
    }
    given = {name: value for part in used.values() for name, value in part.items() if value is not None}
    if idle := sorted(set(given) - set(used[known])):
        where = [name for name, options in used.items() if idle[0] in options]
        raise UsageError(f"{idle[0]}: nothing looks at it here; it belongs to evidence={_either(where)}.")
    if known != "paper" and "paper" in (fairness_test, pvalue_form):
        name = "fairness_test" if fairness_test == "paper" else "pvalue_form"
        raise UsageError(f'{name}: "paper" is a form of the bootstrap; give evidence="paper" with it.')
    if known == "paper" and fairness_test == "equivalence":
        raise UsageError('fairness_test: "equivalence" is in closed form; give "two_one_sided" or "paper" here.')
    if known == "paper" and source.designed:
        raise UsageError("weight, cluster: the paper's bootstrap resamples single rows; choose other evidence.")
    if known != "whole" and len(ready) > 1:
        raise UsageError("candidate: several are tested on all rows; leave evidence and splits out.")
    accurate = accuracy_utility(accuracy)
    fair = fairness_utilities(fairness, accurate)
    # +1 where having less of the utility is the disadvantage, -1 where having more is.
    harm = tuple(1 if (disadvantage or _WORSE[utility.better]) == "lower" else -1 for utility in fair)
    gains = _fairness_gains([utility.name for utility in fair], fairness_gain, scale)
    words = source.labels.metrics
    accurate, *named = (replace(utility, name=words.get(utility.name, utility.name)) for utility in (accurate, *fair))
    form = fairness_test or ("two_one_sided" if known == "paper" else "equivalence")
    criteria = Criteria(accurate, tuple(named), (), scale=scale, harm=harm, fairness_test=form, fairness_gains=gains)
    columns = {"outcome": outcome, "status_quo": status_quo}
    columns |= {f"candidate[{name}]": column for name, column in ready.items()}
    columns |= {f"outcome of {u.name}": u.outcome for u in criteria.utilities if u.outcome is not None}
    columns |= {feature(name): name for name in names}
    fitted = (None, CANDIDATE) if rule is None else selection_rule(rule, group_aware=group_aware, features=names)
    request, texts = _request(source, columns, groups, criteria.utilities, names)
    outcomes = {outcome, *(u.outcome for u in criteria.utilities if u.outcome is not None)}
    for argument, read in (("features", names), ("candidate", ready.values()), ("status_quo", (status_quo,))):
        if later := sorted(outcomes & set(read)):
            raise UsageError(f"{argument}: {later[0]!r} is an outcome, which nobody knows when the decision is made.")
    return Plan(
        request=request,
        columns=columns,
        groups=groups,
        features=names,
        texts=texts,
        by_row=bool(names) or source.designed,
        criteria=criteria,
        accuracy_gain=accuracy_gain,
        margin=margin,
        accuracy_weights=accuracy_weights,
        protected=protected,
        candidates=tuple(ready),
        rule=fitted[0],
        rule_name=fitted[1],
        group_aware=getattr(fitted[0], "group_aware", True),
        capacity=capacity,
        threshold=threshold,
        evidence=known,
        tried=tuple(dict(entry) for entry in tried or ()),
        folds=folds or 5,
        repeats=repeats or 3,
        splits=splits or 7,
        train_fraction=train_fraction or 0.5,
        resamples=resamples or 10_000,
        alpha=alpha,
        pvalue_form=pvalue_form,
        min_size=min_size,
        n_jobs=n_jobs,
        progress=progress,
    )


def intersections(source: Source, groups: object) -> Grouping:
    """Several columns mean their intersection: improvability compares one set of disjoint groups."""
    return source.grouping(groups, depth=len(source.grouping(groups).dimensions))


def _candidates(given: str | Sequence[str] | Mapping[str, str] | None) -> dict[str, str]:
    """The columns of ready candidates by the names they go by."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        ready = {str(name): column for name, column in given.items()}
    elif not isinstance(given, (str, Sequence)):
        raise UsageError(f"candidate: {shown(given)}; give a column, a list of them, or a mapping of names to columns.")
    else:
        listed = [given] if isinstance(given, str) else list(given)
        ready = {str(column): column for column in listed}
        if len(ready) < len(listed):
            raise UsageError(f"candidate: {listed!r} names a column twice.")
    for name, column in ready.items():
        if not isinstance(column, str):
            raise UsageError(f"candidate: {shown(column)} is no column ({name!r}); name columns by text.")
    if not ready:
        raise UsageError("candidate: none given; name at least one column, or give a rule.")
    return ready


def _evidence(given: Evidence | None, ready: bool, splits: int | None) -> Evidence:
    """What the test rests on: as asked, or by what was given."""
    if given is None:
        return "splits" if splits is not None else "whole" if ready else "crossfit"
    if given == "crossfit" and ready:
        raise UsageError("evidence: nothing is fitted where the candidate is ready; leave it out to use all rows.")
    if given == "whole" and not ready:
        raise UsageError('evidence: "whole" tests on the rows a rule was fitted on; give "crossfit" or "splits".')
    return given


def _either(names: Sequence[str]) -> str:
    return " or ".join(f'"{name}"' for name in names)


def _request(
    source: Source, columns: Mapping[str, str], groups: object, utilities: Sequence[Utility], features: Sequence[str]
) -> tuple[Request, tuple[str, ...]]:
    """Every distinct line with its count; or the columns themselves, where features are fitted.

    With the features that are not numbers, which are read as text.
    """
    source.require(**columns)
    two_valued = any(u.binary_outcome and u.outcome is None for u in utilities)
    binary = {"outcome": columns["outcome"]} if two_valued else {}
    texts = tuple(name for name in features if is_text(source.schema[name]))
    numeric = {role: column for role, column in columns.items() if role not in (*binary, *map(feature, texts))}
    keys = {} if features or source.designed else {f"{role} value": number(c) for role, c in numeric.items()}
    if (weight := source.reading.weight) is not None:
        numeric[WEIGHT] = weight
    return Request(
        grouping=intersections(source, groups),
        binary=binary,
        numeric=numeric,
        keys=keys
        | {f"text {name}": text(name) for name in texts}
        | ({} if source.cluster is None else {CLUSTER: text(source.cluster)}),
        labels={feature(name): name for name in texts},
    ), texts


def feature(name: str) -> str:
    """The role of a feature."""
    return f"features[{name}]"


def _check_accuracies(gain: Gain, weights: Weights | None, scale: Scale) -> None:
    if isinstance(weights, Mapping) and any(weight <= 0 for weight in weights.values()):
        raise UsageError(f"accuracy_weights: {dict(weights)!r}; weights must be above 0.")
    if isinstance(gain, Mapping) and weights is not None:
        raise UsageError("accuracy_gain: one accuracy is asked for (accuracy_weights), so give one number.")
    if scale == "ratio" and any(one <= -1 for one in (gain.values() if isinstance(gain, Mapping) else (gain,))):
        raise UsageError(f"accuracy_gain: {gain!r}; a loss of everything requires nothing. Give more than -1.")


def _fairness_gains(utilities: Sequence[str], gain: Gain, scale: Scale) -> tuple[float, ...]:
    """The required cut of each unfairness."""
    if isinstance(gain, Mapping) and set(gain) != set(utilities):
        raise UsageError(f"fairness_gain: {dict(gain)!r}; give one number for each of {', '.join(utilities)}.")
    gains = tuple(float(gain[name] if isinstance(gain, Mapping) else gain) for name in utilities)
    if scale == "ratio" and max(gains) >= 1:
        raise UsageError(f"fairness_gain: {gain!r}; unfairness cannot fall by all of itself or more. Give less than 1.")
    return gains


def _by_group(argument: str, groups: Sequence[Group], given: Mapping[str, float]) -> FloatArray:
    """One number per group, in the order of the groups."""
    numbers = np.full(len(groups), np.nan)
    for key, value in given.items():
        numbers[_code(argument, groups, key)] = value
    absent = [group.label for group, value in zip(groups, numbers, strict=True) if np.isnan(value)]
    if absent:
        raise UsageError(f"{argument}: nothing given for {', '.join(absent)}; give a number for every group.")
    return numbers


def _code(argument: str, groups: Sequence[Group], given: object) -> int:
    """Which group is meant: by its label, by its value, or by ``{column: value}``."""
    for code, group in enumerate(groups):
        values = tuple(group.mapping.values())
        if isinstance(given, Mapping):
            if {k: str(v) for k, v in given.items()} == {k: str(v) for k, v in group.mapping.items()}:
                return code
        elif str(given) == group.label or (len(values) == 1 and str(given) == str(values[0])):
            return code
    raise UnknownOption(argument, given, [group.label for group in groups])
