"""The price of fairness: what corrected effects cost in the ranking of people.

With p the probability of treatment, Z = Y (T - p) / (p (1 - p)) has the person's effect on Y as its mean (Athey and
Imbens 2016). Every quantity is a mean over rows, or a smooth function of ranks; its influence on each row gives the
standard error, and the difference of two influences that of a change on the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Unpack

import numpy as np

from isonomy.effects import experiment, words
from isonomy.effects.bias import other_measure
from isonomy.effects.estimators.collapse import AnyMeasure, ArmMeans
from isonomy.effects.estimators.errors import errors_of
from isonomy.effects.experiment import Experiment, Trial
from isonomy.errors import UsageError
from isonomy.frames import Groups, Request, Sample
from isonomy.inference import Verdict, rejected
from isonomy.inference.designs import FEWEST, Influence, spread
from isonomy.inference.effect import Wald
from isonomy.inference.multiplicity import adjust
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.options import Alpha, Column, Fraction, Names, Number, Option, Positive, RowOptions, Whole
from isonomy.results import Columns, Evidence, Note, column, open_call, phrases, question

if TYPE_CHECKING:
    import altair as alt

QUANTITIES = ("qini", "loss", "policy_value")
BUDGETS = np.linspace(0, 1, 21)
Plotted = Literal["qini", "loss", "policy_value", "profit", "targeted", "curves"]
Score = tuple[float, FloatArray]  # a quantity, and the influence of each row on it (mean 0)


@dataclass(frozen=True)
class Budget(Option):
    """How many people can be treated, and what that is worth in money.

    Parameters
    ----------
    share : float, default 0.3
        Share of people that can be treated.
    value : float, optional
        What one unit of the outcome is worth; 1 if only ``cost`` is given.
    cost : float, optional
        What treating one person costs; 0 if only ``value`` is given.
    """

    name: ClassVar[str] = "budget"
    share: Fraction = 0.3
    value: Positive | None = None
    cost: Annotated[float, Number(least=0)] | None = None


# ---- call


@question(
    "PricePlan",
    moved={
        "propensity": "estimator=iso.arm_means(propensity={})",
        "value": "budget=iso.budget(value={})",
        "cost": "budget=iso.budget(cost={})",
    },
    asks="What do corrections of group effects cost in the ranking of people?",
    topic="Price of corrections",
    meaning=words.meaning,
    badges={"inconclusive": "Price measured"},
    next_steps={
        "inconclusive": (
            "Weigh what the ranking gains or loses against the bias that a correction removes: that is a judgment.",
        )
    },
    looks={"inconclusive": "compared"},
)
def price_of_fairness(
    data: object,
    *,
    effect: Column,
    corrected: Names,
    treatment: Column,
    outcome: Column,
    groups: Groups,
    measure: AnyMeasure | None = None,
    baseline: Column | None = None,
    estimator: Literal["arm_means"] | ArmMeans = "arm_means",
    budget: Fraction | Budget = 0.3,
    alpha: Alpha = 0.05,
    depth: Whole = 1,
    **rows: Unpack[RowOptions],
) -> PriceResult:
    """What do corrected effects cost in the ranking of people?

    A correction moves the predictions of whole groups, and so the order of people across groups. Three quantities are
    compared before and after, on the same rows: Qini (the area between the gain from treating those ranked highest and
    from treating as many at random), transformed-outcome loss (the mean squared distance of the predicted differences
    from Z = Y (T - p) / (p (1 - p)), whose mean is the effect), and the value of treating the ``budget`` share that is
    ranked highest. If the budget has a value or a cost, there is a fourth, the profit per person of that policy. Null
    hypothesis, for each column and quantity: no change. The result also says who is targeted before and after, by group
    and budget.

    Parameters
    ----------
    data : table
        Rows of an experiment that were not used to fit the corrections. The columns named here are read into memory.
    effect : str
        Column of predicted effects before correction.
    corrected : str or list of str
        Columns of corrected effects.
    treatment, outcome, groups, measure, alpha, depth
        As in `treatment_bias`.
    baseline : str, optional
        Column with the predicted outcome without treatment. Relative effects are then ranked and judged as differences.
    estimator : {"arm_means"} or iso.arm_means(propensity), default "arm_means"
        The column with the known probability of treatment. Default: the treated share of all rows.
    budget : float or iso.budget(share, value, cost), default 0.3
        Share of people that can be treated. The profit per person is value times the policy value minus cost times the
        budget, with the value of one unit of the outcome and the cost of treating one person, in money.
    **rows
        count, weight, cluster, missing, missing_group: how rows are read; see `isonomy.RowOptions`.

    Returns
    -------
    PriceResult
        ``to_frame()`` has one row per corrected column (``candidate``) and quantity (``metric``): estimate (after),
        reference (before), disparity (the paired change), ci_low, ci_high, pvalue, adjusted_pvalue, and the bias left.
        ``targeted(budget)`` has the targeted share of every group, and ``curves()`` the Qini curves.

    Notes
    -----
    When it misleads: without a propensity if the treated share differs between groups; on rows that the corrections
    were fitted on.

    References
    ----------
    Persson, Bakker, Bohle, Feuerriegel and von Wangenheim (working paper, 2024 or later), section 6.5. Athey and Imbens
    (2016), Recursive partitioning for heterogeneous causal effects. PNAS 113.

    Examples
    --------
    >>> import isonomy as iso
    >>> made = iso.simulate.uplift(20_000, groups=["a", "b"], baseline=0.3, error={"b": 0.5}).frame()
    >>> corrector = iso.EffectCorrector(groups="group").fit(made, made["outcome"])
    >>> new = iso.simulate.uplift(20_000, 1, groups=["a", "b"], baseline=0.3, error={"b": 0.5}).frame()
    >>> new = new.with_columns(corrected=corrector.predict(new))
    >>> price = iso.price_of_fairness(
    ...     new, effect="effect", corrected="corrected", treatment="treatment", outcome="outcome", groups="group",
    ...     baseline="baseline",
    ... )
    >>> bool(price.bias_after[0] < price.bias_before[0])
    True
    """
    plan, _, record = open_call("price_of_fairness", PricePlan, locals())
    sample, trials = read(plan)
    columns, facts = estimate(sample, trials, plan)
    return PriceResult(
        **columns,
        **decide(columns, plan),
        null=words.PRICE_NULL,
        notes=notes(columns, facts, plan),
        provenance=record(
            rows=sample.rows,
            dropped=sample.dropped,
            random=False,
            grouping=plan.grouping,
            measure=plan.formula.measure,
        ),
        budget=plan.money.share,
        value=plan.money.value,
        cost=plan.money.cost,
        alpha=plan.alpha,
        shares="one share" if plan.propensity is None else "propensity",
    )


# ---- plan


@dataclass(frozen=True, eq=False, kw_only=True)
class PricePlan(Experiment):
    corrected: Names
    baseline: str | None
    budget: float | Budget

    def __post_init__(self) -> None:
        self.source.require(baseline=self.baseline, **{f"corrected[{i}]": name for i, name in enumerate(self.columns)})
        if not self.columns:
            raise UsageError("corrected: none given; name one column of corrected effects, or several.")
        if None not in (self.baseline, self.baseline_column) and self.baseline != self.baseline_column:
            raise UsageError(
                f"baseline: {self.baseline!r}, and {self.baseline_column!r} in the measure; name one column."
            )
        if self.means.observed_effects is not None or self.means.rest != "standardized":
            raise UsageError("estimator: prices need the propensity alone; leave out observed_effects and rest.")
        super().__post_init__()

    @property
    def money(self) -> Budget:
        return self.budget if isinstance(self.budget, Budget) else Budget(self.budget)

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.corrected,) if isinstance(self.corrected, str) else tuple(self.corrected)

    @property
    def quantities(self) -> tuple[str, ...]:
        return QUANTITIES if self.money.value is None and self.money.cost is None else (*QUANTITIES, "profit")

    @property
    def requests(self) -> tuple[Request, ...]:
        return ()  # rows are ranked, so they are read


# ---- read


def read(plan: PricePlan) -> tuple[Sample, list[Trial]]:
    corrected = {f"corrected[{i}]": name for i, name in enumerate(plan.columns)}
    further = {} if plan.baseline is None else {"baseline": plan.baseline}
    request = plan.request(sums=False)
    sample = plan.source.rows(replace(request, numeric={**request.numeric, **corrected, **further}))
    lines, trials = experiment.lines_of(sample, plan), []
    for name in ("effect", *corrected):
        priced = replace(lines, factors={**lines.factors, "f": np.asarray(sample.columns[name], dtype=float)})
        trials.append(experiment.from_design(sample, priced, plan))
    return sample, trials


# ---- estimate


def estimate(sample: Sample, trials: Sequence[Trial], plan: PricePlan) -> tuple[dict[str, Any], dict[str, Any]]:
    first = trials[0]
    assert first.lines is not None
    lines = first.lines

    def by_group(values: FloatArray) -> FloatArray:
        return first.joined([np.bincount(codes, lines.weight * values, groups) for codes, groups in lines.groups])

    people = by_group(np.ones(sample.size))
    if plan.propensity is None:
        p = np.full(sample.size, float(np.average(lines.arm, weights=lines.weight)))
    else:
        p = np.asarray(sample.columns["propensity"], dtype=float)
    experiment.refuse_certain(plan.propensity, p)
    experiment.check_measure(first.parts[0], plan)
    transformed = lines.factors["y"] * (lines.arm - p) / (p * (1 - p))
    scored, left, gains, targeted = [], [], [], []
    money, budgets = plan.money, np.union1d(BUDGETS, [plan.money.share])
    for trial in trials:
        assert trial.lines is not None
        effect = difference = trial.lines.factors["f"]
        if plan.formula.measure == "relative":
            baseline = np.nan if plan.baseline is None else np.asarray(sample.columns["baseline"], dtype=float)
            difference = (effect - 1) * baseline
        rank_by = difference if np.isfinite(difference).all() else effect
        gain, influence = policy_value(transformed, rank_by, lines.weight, money.share)
        # The treated share is the budget, so only the gain of the profit varies.
        worth = 1.0 if money.value is None else money.value
        profit = worth * gain - (money.cost or 0.0) * money.share, worth * influence
        area, distance = qini(transformed, rank_by, lines.weight), loss(transformed, difference, lines.weight)
        quantities = (area, distance, (gain, influence), profit)[: len(plan.quantities)]
        scored.append(quantities)
        ranks = _ranks(rank_by, lines.weight)
        policies = [treated_shares(*ranks, budget) for budget in budgets]
        gains.append([np.average(transformed * treated, weights=lines.weight) for treated in policies])
        targeted.append([by_group(treated) / np.maximum(people, 1e-300) for treated in policies])
        errors = [errors_of(part.sums.moments(), plan.formula) for part in trial.parts]
        errors, _ = experiment.designed_errors(errors, trial, plan)
        # The root mean square of the biases of all groups, without their sampling error.
        squares = [np.where(e.usable, e.gap.value**2 - e.gap.standard_error**2, np.nan) for e in errors]
        square = first.joined(squares)
        left.append(np.sqrt(max(float(np.nanmean(square)), 0.0)) if np.isfinite(square).any() else np.nan)
        if trial is first:
            effects = [e.effects for e in errors]
    values, influences = (np.array([[pair[i] for pair in quantities] for quantities in scored]) for i in (0, 1))
    influences[1:] -= influences[0]
    error = standard_error(influences, lines.weight)
    df, few = np.full(error[1:].size, np.inf), False
    if sample.design is not None:
        shares = np.nan_to_num(influences.swapaxes(1, 2)) / lines.weight.sum()
        spreads = [spread(sample.design, Influence.from_values(share)) for share in shares]
        error = np.where(np.isfinite(error), np.sqrt([part.variance for part in spreads]), np.nan)
        df, few = np.ravel([part.df for part in spreads[1:]]), bool((spreads[0].effective < FEWEST).any())
    change = Wald((values[1:] - values[0]).ravel(), np.ravel(error[1:]), df)
    low, high = change.limits(plan.alpha)
    columns = {
        "groups": first.groups,
        "status": (Status.OK,) * len(first.groups),
        "n": first.joined([part.rows.sum(-1) for part in first.parts]),
        "share": people / lines.weight.sum(),
        "budgets": budgets,
        "gain": np.array(gains),
        "targeted_share": np.array(targeted),
        "candidates": tuple(name for name in plan.columns for _ in plan.quantities),
        "metric": plan.quantities * len(plan.columns),
        "estimate": values[1:].ravel(),
        "reference": np.tile(values[0], len(plan.columns)),
        "disparity": change.value,
        "ci_low": low,
        "ci_high": high,
        "pvalue": np.where(few, np.nan, np.where(change.value == 0, 1.0, change.pvalue())),
        "standard_error": change.standard_error,
        "bias_before": np.full(change.value.shape, left[0]),
        "bias_after": np.repeat(left[1:], len(plan.quantities)),
        "arms_differ": first.arms_differ,
    }
    facts = {
        "predicted": first.joined([effect.predicted for effect in effects]),
        "observed": first.joined([effect.observed for effect in effects]),
        "binary": first.parts[0].sums.binary,
        "few_clusters": few,
    }
    return columns, facts


def loss(transformed: FloatArray, effect: FloatArray, weight: FloatArray) -> Score:
    """Mean of (Z - f)^2: the mean squared error of the predicted effects, plus the variance of Z."""
    square = (transformed - effect) ** 2
    value = float(np.average(square, weights=weight))
    return value, square - value


def qini(transformed: FloatArray, rank_by: FloatArray, weight: FloatArray) -> Score:
    """Area between the gain from treating those ranked highest and that from treating as many at random.

    With u the share of rows ranked above (ties count half) it is the mean of Z (1/2 - u). A row moves the ranks of the
    others too: its influence has a second term, the mean of Z over the rows it stands above.
    """
    codes, share = _ranks(rank_by, weight)
    above = 1 - np.cumsum(share) + share / 2
    gain = np.bincount(codes, weight * transformed) / weight.sum()
    below = np.cumsum(gain) - gain / 2
    gains = transformed * (0.5 - above[codes])
    value = float(np.average(gains, weights=weight))
    others = below[codes]
    return value, gains - value - (others - np.average(others, weights=weight))


def treated_shares(codes: IntArray, share: FloatArray, budget: float) -> FloatArray:
    return np.clip((budget - 1 + np.cumsum(share)) / share, 0.0, 1.0)[codes]


def policy_value(transformed: FloatArray, rank_by: FloatArray, weight: FloatArray, budget: float) -> Score:
    """Gain per person over treating nobody when the ``budget`` share ranked highest is treated, ties at random."""
    codes, share = _ranks(rank_by, weight)
    above, treated = 1 - np.cumsum(share), treated_shares(codes, share, budget)
    gains = transformed * treated
    value = float(np.average(gains, weights=weight))
    # Rows that join push others below the threshold: by the effect there, from the rows nearest to it.
    distance = np.abs(above + share / 2 - budget)[codes]
    order, rows = np.argsort(distance), weight.sum()
    before = np.cumsum(weight[order]) - weight[order]
    near = distance <= distance[order][before <= min(1.0, rows**-0.2) * (rows - 1)].max(initial=0.0)
    margin = float(np.average(transformed[near], weights=weight[near]))
    return value, gains - value - margin * (treated - budget)


def _ranks(values: FloatArray, weight: FloatArray) -> tuple[IntArray, FloatArray]:
    _, codes = np.unique(values, return_inverse=True)
    return codes.astype(np.intp), np.bincount(codes, weight) / weight.sum()


def standard_error(influence: FloatArray, weight: FloatArray) -> FloatArray:
    total = float(weight.sum())
    return np.sqrt((weight * influence**2).sum(-1) / max(total - 1, 1) / total)


# ---- decide


def decide(columns: Mapping[str, Any], plan: PricePlan) -> dict[str, Any]:
    """Which changes were shown, adjusted for all; one of the profit is that of the policy value in other units."""
    metric, pvalue = np.array(columns["metric"]), columns["pvalue"].copy()
    pvalue[metric != "profit"] = adjust(pvalue[metric != "profit"], "holm")
    if "profit" in metric:
        pvalue[metric == "profit"] = pvalue[metric == "policy_value"]
    return {"adjusted_pvalue": pvalue, "shown": rejected(pvalue, plan.alpha), "verdict": Verdict.INCONCLUSIVE}


def notes(columns: Mapping[str, Any], facts: Mapping[str, Any], plan: PricePlan) -> tuple[Note, ...]:
    measure = plan.formula.measure
    return (
        *other_measure(measure, np.isfinite(facts["predicted"] + facts["observed"]), facts),
        *([Note("no_baseline")] if measure == "relative" and plan.baseline is None else []),
        *([Note("shares_differ")] if columns["arms_differ"] and plan.propensity is None else []),
        *([Note("price_clusters")] if facts["few_clusters"] else []),
    )


# ---- evidence


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PriceResult(Evidence):
    """What corrected effects cost in the ranking of people. A line is a corrected column and a quantity.

    Quantities: ``qini``, ``loss`` (transformed-outcome; less is better), ``policy_value`` at the budget, and ``profit``
    if a value or a cost is given. ``reference`` is the quantity before correction, ``estimate`` after it, and
    ``disparity`` the change. ``bias_before`` and ``bias_after`` are root mean squares over groups, without sampling
    error. By ranking (before correction, then every corrected column) and budget: ``gain``, the gain per person, and
    ``targeted_share``, also by group, the share of the group that is treated. ``share``: of each group among everybody.
    """

    method: ClassVar[str] = words.PRICE_METHOD
    references: ClassVar[tuple[str, ...]] = words.REFERENCES[:1]
    never_shown: ClassVar[tuple[str, ...]] = words.PRICE_LIMITS
    decisive: ClassVar[tuple[str, ...]] = ("adjusted_pvalue",)

    candidates: tuple[str, ...] = column("Corrected effects", name="candidate", withheld=False)
    metric: tuple[str, ...] = column("Quantity", withheld=False)
    estimate: FloatArray = column("After", withheld=False)
    reference: FloatArray = column("Before", withheld=False)
    disparity: FloatArray = column("Change", withheld=False)
    ci_low: FloatArray = column("Change: interval from", withheld=False)
    ci_high: FloatArray = column("Change: interval to", withheld=False)
    pvalue: FloatArray = column(withheld=False)
    adjusted_pvalue: FloatArray = column(withheld=False)
    shown: BoolArray = column("Change shown", withheld=False)
    standard_error: FloatArray = column("Change: standard error", withheld=False)
    bias_before: FloatArray = column("Bias before", withheld=False)
    bias_after: FloatArray = column("Bias after", withheld=False)
    n: FloatArray = column(count=True, listed=False)
    share: FloatArray = column(listed=False)
    targeted_share: FloatArray = column(listed=False)
    gain: FloatArray
    budgets: FloatArray
    arms_differ: bool
    budget: float
    value: float | None
    cost: float | None
    alpha: float
    shares: words.Shares

    def table(self) -> Columns:
        """One row per corrected column and quantity."""
        return {c.name: getattr(self, name) for name, c in self.declared().items() if c.listed and name != "status"}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the groups, which are what may be withheld."""
        return self.labels

    def targeted(self, budget: float | None = None) -> Columns:
        """Who is targeted at a budget before and after each correction, one row per corrected column and group.

        ``targeted_before`` and ``targeted_after`` are shares of the group's people; ``of_targeted_before`` and
        ``of_targeted_after`` say which share of all targeted people belongs to the group. These are counts on these
        rows, without a test. Budgets are those of the call, and multiples of 0.05.
        """
        share = self.budget if budget is None else budget
        place = np.flatnonzero(np.isclose(self.budgets, share))
        if not place.size or not share > 0:
            raise UsageError(
                f"budget: {share!r}; give that of the call ({self.budget:g}) or a multiple of 0.05 above 0."
            )
        before, *after = self.targeted_share[:, place[0]]
        whole, labels, columns = self.share / self.budgets[place[0]], list(self.labels), dict.fromkeys(self.candidates)
        return {
            "candidate": [name for name in columns for _ in labels],
            "group": labels * len(columns),
            "n": np.tile(self.n, len(columns)),
            "targeted_before": np.tile(before, len(columns)),
            "targeted_after": np.concatenate(after),
            "of_targeted_before": np.tile(whole * before, len(columns)),
            "of_targeted_after": np.concatenate([whole * shares for shares in after]),
        }

    def curves(self) -> Columns:
        """The Qini curves: for each ranking and share of people treated, the gain per person, and the profit.

        One of the rankings is at random. The profit is there if a value or a cost is given.
        """
        rankings = ("before correction", *dict.fromkeys(self.candidates), "at random")
        columns: dict[str, Any] = {
            "predictions": [name for name in rankings for _ in self.budgets],
            "budget": np.tile(self.budgets, len(rankings)),
            "gain": np.append(self.gain.ravel(), self.budgets * self.gain[0, -1]),
        }
        if self.value is not None or self.cost is not None:
            worth = 1.0 if self.value is None else self.value
            columns["profit"] = worth * columns["gain"] - (self.cost or 0.0) * columns["budget"]
        return columns

    def headline(self) -> str:
        """How many changes were shown."""
        return words.price_headline(self) if self.answered else Evidence.headline(self)

    def findings(self) -> tuple[str, ...]:
        """For each column, the bias that is left and the changes."""
        sentences = []
        for i, metric in enumerate(self.metric):
            sentences += [words.trade(self, i)] if metric == QUANTITIES[0] else []
            sentences += [words.price(self, i)] if np.isfinite(self.disparity[i]) else []
        return (*sentences, *(line for name in dict.fromkeys(self.candidates) for line in words.targeting(self, name)))

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        return words.assumptions(self)[:3]

    def movement(self) -> str:
        return phrases.VERDICTS_ALONE

    def plot(self, quantity: Plotted = "policy_value") -> alt.TopLevelMixin:
        """The trade-off: bias left on one axis, the change of a quantity with its interval on the other.

        ``quantity="targeted"``: who is targeted before and after. ``quantity="curves"``: Qini curves.
        """
        from isonomy.effects import charts

        if quantity == "targeted":
            return charts.targeted(self)
        return charts.qini_curves(self) if quantity == "curves" else charts.trade(self, quantity)
