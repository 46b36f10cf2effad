"""The tests an audit file can ask for. Every key is a keyword of the function of that name, with the same default."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field

from isonomy.audit.conditions import Condition, GroupSpec, OwnMetric, Reference, Scalar, Table

MetricName = Literal[
    "selection_rate", "tpr", "fpr", "fnr", "tnr", "ppv", "npv", "accuracy", "error_rate",
    "mean_prediction", "mean_error", "mae", "mse", "brier", "log_loss",
]  # fmt: skip
Role = str | Literal[False] | None  # None: as in [columns]; false: none in this test
Groups = GroupSpec | list[GroupSpec] | None
Alpha = Annotated[float, Field(gt=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]
Whole = Annotated[int, Field(ge=1)]
Tolerance = Annotated[float, Field(gt=0)] | None

# Keys that describe the test itself; all others are keywords of the function.
OWN_KEYS = ("kind", "id", "title", "truth", "filters")


class Test(Table):
    """What every test has besides its function's keywords."""

    __test__ = False  # not one of pytest's
    roles: ClassVar[tuple[str, ...]] = ()  # filled from [columns] unless the test says otherwise
    column_keys: ClassVar[tuple[str, ...]] = ()  # further keys that name columns

    id: str | None = Field(default=None, min_length=1, max_length=200)
    """A name unique in the audit. Seeds depend on it, not on the order of tests."""
    title: str | None = None
    """A heading of your own; without it, the question."""
    truth: list[str] = Field(default_factory=list)
    """What is known to be true (simulated data), shown beside the findings."""
    filters: list[Condition] = Field(default_factory=list)
    """Further conditions on the rows of this test."""

    def inherited(self) -> tuple[str, ...]:
        """The roles this test takes from [columns] where it does not name them itself."""
        return self.roles

    def default_id(self) -> str:
        """The kind, and what tells tests of one kind apart."""
        kind: str = self.kind  # type: ignore[attr-defined]
        for key in ("metric", "criterion", "measure"):
            told = getattr(self, key, None)
            if key in self.model_fields_set and told is not None:
                return f"{kind}-{told if isinstance(told, str) else told.name}"
        return kind


class _Compared(Test):
    """What flag and certify share."""

    roles: ClassVar[tuple[str, ...]] = ("outcome", "prediction", "score", "groups")

    metric: MetricName | OwnMetric
    """The quantity to compare: a name, or `{name, value, where, binary}`."""
    groups: Groups = None
    outcome: Role = None
    prediction: Role = None
    score: Role = None
    reference: Reference = "population"
    """What groups are compared with: "population", "rest", a number, a group such as `{race = "White"}`, or
    `{value, influence}`: an estimate with a column of its influence values."""
    uncertainty: Literal["joint", "plugin", "fixed"] = "joint"
    """Whether the reference's own uncertainty counts. "plugin" reproduces the paper and is too narrow."""
    tolerance: Tolerance = None
    """Differences up to this size are tolerated."""
    alpha: Alpha = 0.05
    """Error rate."""
    depth: Whole = 1
    """Intersections up to this many columns."""
    min_size: Whole = 10
    """Smaller groups are listed and not tested."""
    method: Literal["el", "eel"] = "el"
    """Empirical likelihood, or its Euclidean form."""
    resamples: Whole = 1_000
    """Of the correction that needs them."""
    rng: int | None = Field(default=None, ge=0)
    """A seed of its own; without it, one made from the audit's seed and the test's id."""


class Flag(_Compared):
    """Which groups are treated differently, and is it more than chance?"""

    kind: Literal["flag"]
    null: float | list[float] = 0.0
    """The difference tested: a number, or `[low, high]` with alternative = "outside"."""
    alternative: Literal["two-sided", "greater", "less", "outside", "outside-published"] = "two-sided"
    correction: Literal["bartlett", "adjusted"] | None = None
    """For small samples."""
    interval: Literal["pointwise", "simultaneous", "one-sided"] = "pointwise"
    adjust: Literal["bh", "by", "holm", "bonferroni", "bh-tree", "none"] = "bh"
    """Allowance for looking at several groups."""


class Certify(_Compared):
    """Taken together, are the groups treated alike?"""

    kind: Literal["certify"]
    null: float | list[float] | dict[str, float] = 0.0
    """The differences tested: one for all groups, one a group, or by label."""
    correction: Literal["bartlett"] | None = None
    """For small samples."""


class Project(Test):
    """How little would have to change for this classifier to look fair, and for whom?"""

    roles: ClassVar[tuple[str, ...]] = ("outcome", "prediction", "score", "groups")
    column_keys: ClassVar[tuple[str, ...]] = ("distance",)

    kind: Literal["project"]
    outcome: Role = None
    prediction: Role = None
    groups: Groups = None
    criterion: Literal["equal_opportunity", "predictive_equality", "equalized_odds", "statistical_parity"] = (
        "equal_opportunity"
    )
    distance: str | None = None
    """A column of distances to the decision boundary; without it |score - threshold|."""
    score: Role = None
    threshold: float | None = None
    """Where the score is cut; inferred from the decisions if not given."""
    reference: dict[str, Scalar] | None = None
    """The level others are compared with, by column; by default the largest."""
    tolerance: Tolerance = None
    tolerance_side: Literal["both", "upper", "lower"] = "both"
    bandwidth: Positive | None = None
    alpha: Alpha = 0.05
    rng: int | None = Field(default=None, ge=0)
    """A seed of its own; without it, one made from the audit's seed and the test's id."""

    def inherited(self) -> tuple[str, ...]:
        """A column of distances replaces the score."""
        return tuple(role for role in self.roles if role != "score" or self.distance is None)


UtilityName = Literal[
    "accuracy", "tpr", "tnr", "fpr", "selection_rate", "outcome_among_selected", "outcome_among_unselected", "profit",
    "equal_opportunity", "predictive_equality", "equalized_odds", "statistical_parity",
]  # fmt: skip


class UtilityOf(Table):
    """A utility that looks at an outcome column of its own."""

    utility: UtilityName
    outcome: str


Utility = UtilityName | UtilityOf


class Improvability(Test):
    """Is there an alternative that is as accurate and less unequal?"""

    roles: ClassVar[tuple[str, ...]] = ("outcome", "groups", "features")
    column_keys: ClassVar[tuple[str, ...]] = ("status_quo", "candidate")

    kind: Literal["improvability"]
    outcome: Role = None
    groups: Groups = None
    status_quo: str
    """The decisions (0/1) or the score in use."""
    features: list[str] | Literal[False] | None = None
    candidate: str | None = None
    """A column of ready-made decisions or scores; without it, `rule` finds one."""
    rule: Literal["linear", "lasso", "random_forest", "milp", "reductions"] | None = None
    """What finds a candidate from the features."""
    group_aware: bool = False
    capacity: float | None = Field(default=None, gt=0, lt=1)
    """The share that can be selected."""
    threshold: float | None = None
    accuracy: Utility = "outcome_among_selected"
    fairness: Utility | list[Utility] | None = None
    accuracy_gain: float | dict[str, float] = 0.0
    fairness_gain: float | dict[str, float] = 0.0
    scale: Literal["ratio", "difference"] = "ratio"
    accuracy_weights: Literal["pooled"] | dict[str, float] | None = None
    protected: str | dict[str, Scalar] | None = None
    disadvantage: Literal["lower", "higher"] | None = None
    fairness_test: Literal["two_one_sided", "paper"] = "two_one_sided"
    splits: Whole = 7
    train_fraction: float = Field(default=0.5, gt=0, lt=1)
    resamples: Whole = 10_000
    alpha: Alpha = 0.05
    pvalue_form: Literal["add_one", "paper"] = "add_one"
    min_size: Whole = 10
    n_jobs: int = 1
    rng: int | None = Field(default=None, ge=0)

    def inherited(self) -> tuple[str, ...]:
        """A ready-made candidate needs no features."""
        return tuple(role for role in self.roles if role != "features" or self.candidate is None)


class TreatmentBias(Test):
    """Does the uplift model get some groups' effects wrong?"""

    roles: ClassVar[tuple[str, ...]] = ("effect", "treatment", "outcome", "groups", "baseline", "features")

    kind: Literal["treatment_bias"]
    effect: Role = None
    treatment: Role = None
    outcome: Role = None
    groups: Groups = None
    baseline: Role = None
    measure: Literal["relative", "difference"] = "relative"
    collapse: (
        Literal["control_outcome", "average", "weighted", "normalised", "positives", "positives_inverse"] | None
    ) = None
    estimator: Literal["arm_means", "regression", "aipw"] = "arm_means"
    features: list[str] | Literal[False] | None = None
    observed_effects: dict[str, Annotated[list[float], Field(min_length=2, max_length=2)]] | None = None
    """Effects estimated elsewhere, by group: `[effect, standard error]`."""
    rest: Literal["standardised", "pooled"] = "standardised"
    split: str | None = None
    """"independent", or a 0/1 column."""
    variance: Literal["influence", "bootstrap", "bootstrap_rows"] = "influence"
    adjust: Literal["holm", "bonferroni", "bh", "by", "none"] = "holm"
    tolerance: Tolerance = None
    alpha: Alpha = 0.05
    power: float = Field(default=0.8, gt=0, lt=1)
    depth: Whole = 1
    resamples: Whole = 1_000
    rng: int | None = Field(default=None, ge=0)

    def inherited(self) -> tuple[str, ...]:
        """Only some estimators and collapses look at features or at a baseline."""
        unused = set()
        if self.estimator == "arm_means":
            unused.add("features")
        if self.collapse not in ("weighted", "normalised"):
            unused.add("baseline")
        return tuple(role for role in self.roles if role not in unused)


class _Curve(Test):
    """What the tests of a score share."""

    roles: ClassVar[tuple[str, ...]] = ("outcome", "score", "groups", "user")

    outcome: Role = None
    score: Role = None
    groups: Groups = None
    user: Role = None
    level: Literal["user", "aggregate"] | None = None
    """"user": one vote a user; "aggregate": one vote a row. By default "user" where there is a user column."""
    kernel: Literal["gaussian", "gaussian4", "gaussian6"] = "gaussian"
    reference: dict[str, Scalar] | None = None
    """The group others are compared with; by default every pair is compared."""
    tolerance: Tolerance = None
    alpha: Alpha = 0.05
    depth: Whole = 1


class PredictiveParity(_Curve):
    """Does a score mean the same thing for every group?"""

    kind: Literal["predictive_parity"]
    grid: Annotated[list[float], Field(min_length=1)] | None = None
    bandwidth: Positive | list[Positive] | None = None
    method: Literal["residual", "orthogonal", "nadaraya-watson", "cumulative"] = "residual"
    adjust: Literal["sup-t", "bonferroni", "holm", "none"] = "sup-t"
    resamples: int = Field(default=2_000, ge=100)
    rng: int | None = Field(default=None, ge=0)


class MarginalOutcomes(_Curve):
    """Do the people just above the threshold have the same outcomes in every group?"""

    kind: Literal["marginal_outcomes"]
    threshold: float
    """The score from which on the decision is positive."""
    bandwidth: Positive | None = None
    method: Literal["local-quadratic", "local-linear", "nadaraya-watson"] = "local-quadratic"
    adjust: Literal["holm", "bonferroni", "bh", "by", "none"] = "holm"


AnyTest = Annotated[
    Flag | Certify | Project | Improvability | TreatmentBias | PredictiveParity | MarginalOutcomes,
    Discriminator("kind"),
]

MODELS: dict[str, type[Any]] = {
    "flag": Flag,
    "certify": Certify,
    "project": Project,
    "improvability": Improvability,
    "treatment_bias": TreatmentBias,
    "predictive_parity": PredictiveParity,
    "marginal_outcomes": MarginalOutcomes,
}
