"""`EffectCorrector`: estimate each group's error on experimental data, and subtract it from new predictions.

`predicted_effects` gets the predictions out of any fitted model: EconML, causalml, or whatever has ``effect(X)`` or
``predict(X)``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Annotated, Literal, ParamSpec, Protocol, Self, runtime_checkable

import narwhals as nw
import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from isonomy.effects import words
from isonomy.effects.bias import other_measure
from isonomy.effects.estimators.collapse import Aipw, AnyMeasure, Estimator, NamedMeasure, Regression
from isonomy.effects.estimators.designs import laws_of, together
from isonomy.effects.estimators.errors import constant_arm, effects_of, errors_of
from isonomy.effects.estimators.heldout import multiple_of
from isonomy.effects.estimators.moments import Bootstrap, resample_rows, resample_sums
from isonomy.effects.estimators.shrinkage import (
    DEFAULT,
    AnyStrategy,
    Borrowing,
    Custom,
    Detected,
    Form,
    Strategy,
    correction,
)
from isonomy.effects.experiment import Experiment, ObservedEffects, check_measure, read
from isonomy.errors import DataError, UsageError, WrongType
from isonomy.frames import Group, Request, Source, open_source
from isonomy.frames.estimators import Column, as_tuple, column_of, eager, known_columns, refuse_empty, target
from isonomy.inference.designs import FEWEST
from isonomy.numerics.arrays import FloatArray, IntArray, ObjectArray
from isonomy.numerics.status import Status
from isonomy.options import Alpha, Seeded, check_parameters, checked
from isonomy.options import Form as FileForm
from isonomy.results import phrases

P = ParamSpec("P")
MOVED = {
    "effect_column": "effect=...",
    "group_columns": "groups=...",
    "treatment_column": "treatment=...",
    "baseline_column": "baseline=...",
    "weight_column": "weight=...",
    "cluster_column": "cluster=...",
    "propensity_column": "propensity=...",
    "collapse": 'measure=iso.relative(collapse="...")',
    "feature_columns": "estimator=iso.regression(features=[...]) or estimator=iso.aipw(features=[...])",
    "variance": "method=iso.bootstrap(...)",
    "resamples": "method=iso.bootstrap(resamples=...)",
}


def _refusing_moved(init: Callable[P, None]) -> Callable[P, None]:
    """A constructor that refuses the keywords of earlier versions, and says what to write in their place."""

    @wraps(init)
    def construct(*args: P.args, **kwargs: P.kwargs) -> None:
        for keyword in kwargs:
            if keyword in MOVED:
                raise UsageError(f"{keyword}: it has moved; write {MOVED[keyword]}.")
        init(*args, **kwargs)

    return construct


class EffectCorrector(TransformerMixin, BaseEstimator):
    """How should predicted effects be corrected so that no group's are off?

    ``fit`` estimates the error of each group's predicted effect on a randomized experiment and decides how much of it
    to trust; ``predict`` subtracts that share: f - gamma_g B_g (equation 33). Groups and treatment are columns of X.

    Parameters
    ----------
    strategy : str or callable, default "empirical_bayes_mixture"
        What to subtract. "empirical_bayes": errors shrunk toward their common mean, the more the less they differ
        beyond chance (DerSimonian and Laird); "empirical_bayes_t": the same with a heavy tail that leaves outlying
        groups where they are; "empirical_bayes_mixture": true errors are normal, or equal in most groups, around 0 or
        any other value, averaged with the likelihood of each. From each group's own error: "none" 0; "mean" all of it;
        "significant" all of it if it is significant at ``alpha`` (42); "mse_plus" (46); "mse_minus" (47);
        "positive_part" max(0, 1 - se^2 / B^2); see `correction_risk` for what each of these leaves. Or a function of
        two arrays, the errors of all groups and their standard errors, that returns what to subtract from each group's.
    form : {"additive", "multiplicative"}, default "additive"
        Subtract the correction from every prediction of a group; or, for relative effects, multiply them so that the
        group's effect falls by it. A ratio then stays above 0, which subtracting does not ensure.
    effect : str or int, default "effect"
        Column of X with the predicted effects: its name, or its number.
    groups : str, int or list of them
        Columns of X that say which group a row belongs to. Several mean their intersection.
    treatment : str or int, default "treatment"
        Column of X with the 0/1 assignment; needed by ``fit`` only.
    baseline : str or int, optional
        Column of X with the predicted outcome without treatment, as in `treatment_bias`; needed by ``fit`` only.
    measure, estimator : optional
        As in `treatment_bias`. The ``features`` of an estimator are columns of X, needed by ``fit`` only.
    propensity : str or int, optional
        Column of X with the known probability of treatment, as in `treatment_bias`; needed by ``fit`` only.
    observed_effects : mapping of str to (float, float), optional
        {group: (effect, standard error)} for effects estimated elsewhere, as in `treatment_bias`; ``fit`` then needs
        neither treatment nor outcomes. Relative effects need ``baseline``.
    method : {"automatic"} or iso.bootstrap(resamples, over), default "automatic"
        Standard errors come from influence functions, or from the bootstrap.
    alpha : float, default 0.05
        Error rate of the strategy "significant".
    unknown : {"error", "pooled"}, default "error"
        What to do with a group that was not present in ``fit``: refuse it, or use the correction of all groups together
        and warn.
    weight, cluster : str or int, optional
        Columns of X with the people each row stands for (only the proportions matter), and with what says which rows
        belong together, as in `treatment_bias`; needed by ``fit`` only, with the default ``method``. A group of fewer
        than 10 effective clusters is left uncorrected.
    random_state : int, Generator or None, default None
        Seed of the bootstrap.

    Attributes
    ----------
    groups_ : tuple of Group
        The groups of ``fit``.
    status_ : tuple of Status
        Whether each group's error could be estimated, or why not.
    error_, error_se_ : ndarray
        The error of each group and its standard error.
    correction_ : ndarray
        What is subtracted from the effect of each group.
    factor_ : ndarray
        ``correction_`` as a share of ``error_``.
    multiple_ : ndarray
        What predictions of each group are multiplied by, if ``form`` is "multiplicative".
    pooled_correction_ : float
        What is subtracted for unknown groups with ``unknown="pooled"``.
    pooled_multiple_ : float
        The same as a multiple.

    Examples
    --------
    >>> import isonomy as iso
    >>> table = iso.simulate.uplift(60_000, groups=["a", "b"], baseline=0.4, error={"b": 0.5}).frame()
    >>> corrector = iso.EffectCorrector(groups="group").fit(table, table["outcome"])
    >>> corrector.correction_.round(1).tolist()
    [0.0, 0.5]
    >>> corrector.predict(table.head(2)).shape
    (2,)
    """

    @_refusing_moved
    def __init__(
        self,
        strategy: Strategy | Borrowing | Custom = DEFAULT,
        *,
        form: Form = "additive",
        effect: Column = "effect",
        groups: Column | Sequence[Column] = (),
        treatment: Column = "treatment",
        baseline: Column | None = None,
        measure: AnyMeasure | None = None,
        estimator: Estimator = "arm_means",
        propensity: Column | None = None,
        observed_effects: ObservedEffects | None = None,
        method: Literal["automatic"] | Bootstrap = "automatic",
        alpha: Alpha = 0.05,
        unknown: Literal["error", "pooled"] = "error",
        weight: Column | None = None,
        cluster: Column | None = None,
        random_state: Seeded = None,
    ) -> None:
        self.strategy: AnyStrategy = strategy
        self.form: Form = form
        self.effect = effect
        self.groups = groups
        self.treatment = treatment
        self.baseline = baseline
        self.measure = measure
        self.estimator = estimator
        self.propensity = propensity
        self.observed_effects = observed_effects
        self.method = method
        self.alpha = alpha
        self.unknown = unknown
        self.weight = weight
        self.cluster = cluster
        self.random_state = random_state

    def fit(self, X: object, y: npt.ArrayLike | None = None, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Estimate each group's error.

        ``y``: outcomes. ``sample_weight``: whole numbers count equal rows; any others weigh them as ``weight`` does,
        which is the place for a survey's weights, whole or not.
        """
        check_parameters(self, self.get_params())
        plan = self._plan(X, y, sample_weight)
        rng = np.random.default_rng(self.random_state)
        trial = read(plan, rng)
        part = trial.parts[-1]
        check_measure(part, plan)
        moments = part.sums.moments()
        errors = errors_of(moments, plan.formula, part.known)
        if part.known is None:  # an arm that is all 0 or all 1 shows no spread to shrink its error by
            errors = errors.without(constant_arm(part.sums), Status.FEW_EVENTS)
        whole = errors.error.together(moments.n.sum(-1), errors.usable)
        if part.lines is not None and part.design is not None and part.strata is not None:
            whole = together(part.lines, part.design, errors, plan.formula, moments, part.strata)
            error, bias, totals = laws_of(part.lines, part.design, errors, plan.formula, moments, part.strata)
            errors = errors.under(error, bias, totals.effective < FEWEST)
        effects, usable = errors.effects, errors.usable
        self.groups_, self.status_ = part.groups, errors.status
        self.error_ = np.where(usable, effects.error, np.nan)
        detected = Detected.from_law(self.error_, np.where(usable, errors.error.se, np.nan), errors.error.df)
        if plan.bootstrap is not None:
            resamples, columns = plan.bootstrap.resamples, plan.formula.columns
            if plan.by_rows and trial.lines is not None:
                drawn = resample_rows(trial.lines, columns, resamples, rng)[-1]
            else:
                drawn = resample_sums(part.sums, resamples, rng)
            draws = effects_of(drawn, plan.formula, errors.in_rest, fitted=moments)
            detected = Detected.from_draws(self.error_, draws.error, errors.error.df)
        self.error_se_ = np.where(usable, detected.se, np.nan)
        self.pooled_correction_ = 0.0
        if self.unknown == "pooled":
            pooled = correction(self.strategy, Detected.from_law(whole.value, whole.se, whole.df), self.alpha)
            self.pooled_correction_ = float(np.nan_to_num(pooled)[0])
        self.correction_ = np.where(usable, correction(self.strategy, detected, self.alpha), self.pooled_correction_)
        with np.errstate(divide="ignore", invalid="ignore"):
            self.factor_ = np.where(self.correction_ == 0, 0.0, self.correction_ / self.error_)
        size = np.where(usable, moments.n.sum(-1), 0.0)
        typical = np.nan_to_num(effects.predicted) @ size / max(float(size.sum()), 1.0)
        self.multiple_ = multiple_of(self.correction_, effects.predicted)
        self.pooled_multiple_ = float(multiple_of(np.array(self.pooled_correction_), np.array(typical)))
        binary = plan.observes and part.sums.binary
        seen = {"predicted": effects.predicted, "observed": effects.observed, "binary": binary}
        for note in other_measure(plan.formula.measure, usable, seen):
            warnings.warn(note.text, UserWarning, stacklevel=2)
        labels = [g.label for g, s in zip(self.groups_, self.status_, strict=True) if s is not Status.OK]
        if labels:
            sentence = words.CORRECTED_BY_ALL if self.unknown == "pooled" else words.UNCORRECTED
            warnings.warn(phrases.about(sentence, labels), UserWarning, stacklevel=2)
        return self

    def _plan(self, X: object, y: npt.ArrayLike | None, sample_weight: npt.ArrayLike | None) -> Experiment:
        """The experiment that ``fit`` reads, from the columns of ``X``."""
        groups = as_tuple(self.groups)
        if self.form == "multiplicative" and self.measure == "difference":
            raise UsageError('form: "multiplicative" is for relative effects; with differences give "additive".')
        if not groups:
            raise UsageError("groups: none given; name the columns of X that say which group a row belongs to.")
        refuse_empty(eager(X))
        validate_data(self, X, skip_check_array=True)
        experiment = self.observed_effects is None
        if experiment and y is None:
            raise UsageError("y: none given; pass the outcomes of the experiment, or observed_effects.")
        roles = {"effect": self.effect} | ({"treatment": self.treatment} if experiment else {})
        further = {
            "baseline": self.baseline,
            "weight": self.weight,
            "cluster": self.cluster,
            "propensity": self.propensity,
        }
        adjusted = self.estimator if isinstance(self.estimator, (Regression, Aipw)) else None
        features = {} if adjusted is None else dict(enumerate(as_tuple(adjusted.features)))
        further |= {f"features[{i}]": name for i, name in features.items()}
        roles |= {role: name for role, name in further.items() if name is not None}
        outcomes: npt.ArrayLike = y if y is not None else ()
        if not experiment:  # nobody's: effects come from elsewhere
            outcomes = np.zeros(_read_rows(X, self.effect, {str(name): name for name in groups})[0].size)
        source, names = _read_experiment(X, outcomes, sample_weight, groups, roles)
        if (source.designed or self.propensity is not None) and self.method != "automatic":
            raise UsageError(
                "method: a bootstrap treats rows as independent; with weights, clusters or propensities leave it out."
            )
        if source.like_weights:
            warnings.warn(phrases.like_weights("sample_weight"), UserWarning, stacklevel=3)
        named = None if adjusted is None else type(adjusted)([names[f"features[{i}]"] for i in features])
        return Experiment(
            source,
            effect=names["effect"],
            treatment=names.get("treatment"),
            outcome=names["outcome"] if experiment else None,
            observed_effects=self.observed_effects,
            baseline=names.get("baseline"),
            propensity=names.get("propensity"),
            estimator=named or "arm_means",
            method=self.method,
            groups=[str(name) for name in groups],
            measure=self.measure,
            depth=len(groups),
        )

    def predict(self, X: object) -> FloatArray:
        """Corrected effects, one per row, from the effect and group columns alone: new rows have no treatment yet."""
        check_is_fitted(self, "correction_")
        named = as_tuple(self.groups)
        effect, *columns = known_columns(self, X, (self.effect, *named))
        effects, groups, codes = _read_rows(X, effect, dict(zip(map(str, named), columns, strict=True)))
        multiply = self.form == "multiplicative"
        known = dict(zip(self.groups_, self.multiple_ if multiply else self.correction_, strict=True))
        # A value may have changed its type since the fit, such as a number that is text now: its label has not.
        labels = {group.label: correction for group, correction in known.items()}
        corrections: list[float | None] = [known.get(group, labels.get(group.label)) for group in groups]
        unknown = [group.label for group, correction in zip(groups, corrections, strict=True) if correction is None]
        if unknown and self.unknown == "error":
            raise DataError(phrases.about(words.UNKNOWN_GROUPS, unknown))
        if unknown:
            warnings.warn(phrases.about(words.POOLED_GROUPS, unknown), UserWarning, stacklevel=2)
        pooled = self.pooled_multiple_ if multiply else self.pooled_correction_
        chosen = np.array([pooled if correction is None else correction for correction in corrections])[codes]
        return effects * chosen if multiply else effects - chosen

    def transform(self, X: object) -> FloatArray:
        """Corrected effects as a table of one column."""
        return self.predict(X)[:, None]

    def get_feature_names_out(self, input_features: object = None) -> ObjectArray:
        """The name of the column that `transform` returns."""
        return np.array(["corrected_effect"], dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.string = True
        return tags


# ---- read


def _read_experiment(
    X: object,
    y: npt.ArrayLike,
    sample_weight: npt.ArrayLike | None,
    groups: Sequence[Column],
    roles: Mapping[str, Column],
) -> tuple[Source, dict[str, str]]:
    """The columns of X that a corrector is fitted on, as a table, and the names of its roles there.

    ``sample_weight``: whole numbers count equal rows, any others weigh them. ``roles`` may have a weight and a cluster.
    Group columns keep their names, which the labels of groups show; the roles have names that no group column has.
    """
    keys = {str(name): _values(X, name, "groups") for name in groups}
    fresh = open_source(keys).fresh
    names = {role: fresh(role) for role in (*roles, "outcome")}
    table = keys | {names[role]: _values(X, name, role.partition("[")[0]) for role, name in roles.items()}
    table[names["outcome"]] = np.asarray(target(y)).ravel()
    reading = {role: names[role] for role in ("weight", "cluster") if role in roles}
    if sample_weight is not None:
        given = np.asarray(sample_weight).ravel()
        whole = given.dtype.kind != "f" or bool((given == np.floor(given)).all())
        kind = "count" if whole else "weight"
        if kind in reading:
            raise UsageError("sample_weight: not whole numbers, so weights, as weight is; give one of the two.")
        reading[kind] = fresh(f"sample_{kind}")
        table[reading[kind]] = given
    count, people, cluster = (reading.get(kind) for kind in ("count", "weight", "cluster"))
    return open_source(table, count=count, weight=people, cluster=cluster), names


def _read_rows(
    X: object, effect: Column, groups: Mapping[str, Column]
) -> tuple[FloatArray, tuple[Group, ...], IntArray]:
    """The predicted effect of each row of X, the groups that occur, and which of them each row belongs to.

    ``groups``: the columns that make them, by the name that their labels show.
    """
    values = _values(X, effect, "effect")
    try:
        effects = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise WrongType(f"effect: {effect!r} has values that are not numbers; recode it first.") from None
    if not np.isfinite(effects).all():
        raise DataError(f"effect: {int((~np.isfinite(effects)).sum()):,} predictions are NaN or infinite.")
    table = {name: _values(X, column, "groups") for name, column in groups.items()}
    source = open_source(table, missing_group="level")
    partition = source.rows(Request(grouping=source.grouping(list(groups), len(groups)))).partitions[-1]
    return effects, partition.groups, partition.codes


def _values(X: object, column: Column, argument: str) -> object:
    """One column of X, in a form that every frame library shares."""
    frame = eager(X)
    refuse_empty(frame)
    values = column_of(np.asarray(X) if frame is None else frame, column, argument)
    if isinstance(values, nw.Series):
        if values.dtype in (nw.Int128, nw.UInt128):  # a group stays the one it is as text; other roles are numbers
            values = values.cast(nw.String if argument == "groups" else nw.Float64)
        if not values.implementation.is_pandas():
            return values.to_polars()
        values = values.to_numpy()
    if values.dtype != object or argument == "groups":  # large groups that differ may be equal as floats
        return values
    try:
        return values.astype(float)  # numbers held as objects
    except (TypeError, ValueError):
        return values


# ---- predictions of any model


@runtime_checkable
class Predictor(Protocol):
    """A fitted model; one with ``predict_proba`` is a classifier, and that is used."""

    def predict(self, X: object, /) -> npt.ArrayLike:
        """One prediction per row of ``X``."""


@checked
def predicted_effects(
    model: object,
    X: object,
    *,
    measure: NamedMeasure = "relative",
    gives: NamedMeasure | None = None,
    baseline: Annotated[npt.ArrayLike | Predictor | None, FileForm("baseline")] = None,
    column: int | None = None,
) -> FloatArray:
    """What effect does this model predict for each row of ``X``?

    Parameters
    ----------
    model : object
        An object with ``effect(X)`` (EconML) or ``predict(X)`` (causalml and most others); or a pair of outcome
        models, (control, treated), whose ``predict_proba`` is used if there is one.
    X : object
        What the model takes.
    measure : {"relative", "difference"}, default "relative"
        What is wanted: a ratio (1 is no effect) or a difference; the same as in `treatment_bias`.
    gives : {"relative", "difference"}, default "difference"
        What a single model predicts. A pair of models gives either.
    baseline : array_like or model, optional
        Predicted outcome without treatment for each row: turns a difference into a ratio, 1 + difference / baseline,
        and back.
    column : int, optional
        Which column, if the model predicts several treatments.

    Returns
    -------
    ndarray
        One effect per row.

    Examples
    --------
    >>> class Model:
    ...     def effect(self, X):
    ...         return X[:, :1] * 0.1
    >>> predicted_effects(Model(), np.array([[1.0], [2.0]]), measure="relative", baseline=[0.5, 0.4]).round(3).tolist()
    [1.2, 1.5]
    """
    if isinstance(model, (tuple, list)):
        if len(model) != 2:
            raise UsageError(f"model: {len(model)} models; a pair is (control, treated).")
        for name, value in (("gives", gives), ("baseline", baseline)):
            if value is not None:
                raise UsageError(f"{name}: a pair of outcome models gives any effect by itself; leave it out.")
        before, after = (_outcome(one, X, column) for one in model)
        return _finite(after - before if measure == "difference" else _divide(after, before))
    method: Callable[[object], npt.ArrayLike] | None = getattr(model, "effect", None) or getattr(model, "predict", None)
    if method is None:
        raise UsageError(f"model: {type(model).__name__} has neither effect(X) nor predict(X).")
    effect, given = _single(np.asarray(method(X), dtype=float), column), gives or "difference"
    if given == measure:
        return _finite(effect)
    if baseline is None:
        raise UsageError(
            f"baseline: the model gives a {given} effect; a {measure} one needs the outcome without treatment. "
            f"Give it, or ask for measure={given!r} here and in the audit."
        )
    level = _outcome(baseline, X, None) if isinstance(baseline, Predictor) else np.asarray(baseline, dtype=float)
    if level.shape != effect.shape:
        raise UsageError(f"baseline: {level.size} values for {effect.size} rows.")
    return _finite(1 + _divide(effect, level) if measure == "relative" else (effect - 1) * level)


def _outcome(model: Predictor, X: object, column: int | None) -> FloatArray:
    """Predicted mean outcome: the probability of the last class, or the prediction."""
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X), dtype=float)[:, -1]
    return _single(np.asarray(model.predict(X), dtype=float), column)


def _single(predicted: FloatArray, column: int | None) -> FloatArray:
    """One effect per row."""
    if predicted.ndim == 1:
        return predicted
    wide = predicted.reshape(len(predicted), -1)
    if wide.shape[1] > 1 and column is None:
        raise UsageError(f"column: the model predicts {wide.shape[1]} effects per row; say which.")
    return wide[:, column or 0]


def _divide(top: FloatArray, bottom: FloatArray) -> FloatArray:
    if not (bottom > 0).all():
        raise DataError(
            f"baseline: {int((~(bottom > 0)).sum()):,} rows have a predicted outcome without treatment that is not "
            "above zero, as a relative effect requires. Clip it, or use differences."
        )
    return top / bottom


def _finite(effect: FloatArray) -> FloatArray:
    if not np.isfinite(effect).all():
        raise DataError(f"model: {int((~np.isfinite(effect)).sum()):,} predicted effects are NaN or infinite.")
    return effect
