"""`EffectCorrector`: estimate each group's error on experimental data, and subtract it from new predictions.

`predicted_effects` gets the predictions out of any fitted model: EconML, causalml, or whatever has ``effect(X)`` or
``predict(X)``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Self, cast

import narwhals as nw
import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from isonomy.effects import words
from isonomy.effects.bias import other_measure
from isonomy.effects.estimators import shrinkage
from isonomy.effects.estimators.collapse import (
    Aipw,
    AnyMeasure,
    ArmMeans,
    Estimator,
    NamedMeasure,
    Regression,
    Relative,
)
from isonomy.effects.estimators.errors import all_groups, effects_of, errors_of, under_design, whole_under_design
from isonomy.effects.estimators.moments import Bootstrap, resample_rows
from isonomy.effects.estimators.shrinkage import AnyStrategy, Detected, Form, multiple_of
from isonomy.effects.experiment import Experiment, check_measure, read
from isonomy.errors import DataError, UsageError, WrongType
from isonomy.frames import Request, open_source
from isonomy.frames.estimators import Column, Renamed, as_tuple, column_of, eager, known_columns, refuse_empty, target
from isonomy.numerics.arrays import FloatArray, ObjectArray
from isonomy.numerics.status import Status
from isonomy.options import Alpha, Seeded, check_parameters, checked
from isonomy.options import Form as FileForm
from isonomy.results import phrases

MOVED = {
    **{f"{role}_column": f"{role}=..." for role in ("effect", "treatment", "weight", "cluster")},
    **dict.fromkeys(("propensity", "propensity_column"), "estimator=iso.arm_means(propensity=...)"),
    "observed_effects": "estimator=iso.arm_means(observed_effects=...)",
    "group_columns": "groups=...",
    "baseline": 'measure=iso.relative("weighted", baseline="...")',
    "baseline_column": 'measure=iso.relative("weighted", baseline="...")',
    "collapse": 'measure=iso.relative(collapse="...")',
    "feature_columns": "estimator=iso.regression(features=[...]) or estimator=iso.aipw(features=[...])",
    "variance": "method=iso.bootstrap(...)",
    "resamples": "method=iso.bootstrap(resamples=...)",
}


@dataclass(eq=False, repr=False)
class EffectCorrector(Renamed, TransformerMixin, BaseEstimator):
    """How should predicted effects be corrected so that no group's effect is wrong?

    ``fit`` estimates the error of each group's predicted effect on a randomized experiment and decides how much of it
    to trust; ``predict`` subtracts that share: f - gamma_g B_g (equation 33). Groups and treatment are columns of X,
    given by name or by number.

    Parameters
    ----------
    strategy : str or callable, default "empirical_bayes_mixture"
        What to subtract. From the errors of all groups: "empirical_bayes" shrinks them toward their common mean, more
        if they differ little beyond chance (DerSimonian and Laird); "empirical_bayes_t" does so with a heavy tail that
        leaves outlying groups where they are; "empirical_bayes_mixture" averages over true errors that are normal, or
        equal in most groups, around 0 or any other value. From each group's own error: "none" 0; "mean" all of it;
        "significant" all of it if it is significant at ``alpha`` (42); "mse_plus" (46); "mse_minus" (47);
        "positive_part" max(0, 1 - se^2 / B^2); `correction_risk` compares these. Or a function of two arrays, the
        errors of all groups and their standard errors, that returns what to subtract from each group's predictions.
    form : {"additive", "multiplicative"}, default "additive"
        Subtract the correction from every prediction of a group; or, for relative effects, multiply them so that the
        group's effect falls by it. A ratio then stays above 0, which subtracting does not ensure.
    effect : str or int, default "effect"
        Column with the predicted effects.
    groups : str, int or list of them
        Columns that define the groups. Several columns define their intersections.
    treatment, weight, cluster : str or int, optional
        Columns as in `treatment_bias`, needed by ``fit`` only; ``treatment`` is "treatment" by default. A group of
        fewer than 10 effective clusters is left uncorrected.
    measure, estimator : optional
        As in `treatment_bias`. The columns that they name are columns of X, needed by ``fit`` only. With
        ``observed_effects``, ``fit`` needs neither treatment nor outcomes; relative effects need a ``baseline``.
    method : {"automatic"} or iso.bootstrap(resamples, over), default "automatic"
        Standard errors from influence functions, or from the bootstrap.
    alpha : float, default 0.05
        Error rate of the strategy "significant".
    unknown : {"error", "pooled"}, default "error"
        What to do with a group that was not in ``fit``: refuse it, or use the correction of all groups combined and
        warn.
    random_state : int, Generator or None, default None
        Seed of the bootstrap.

    Attributes
    ----------
    groups_, status_ : tuple
        The groups of ``fit``, and whether each group's error could be estimated, or why not.
    error_, error_se_ : ndarray
        The error of each group and its standard error.
    correction_, factor_ : ndarray
        What is subtracted from the effect of each group, and its share of ``error_``.
    multiple_ : ndarray
        What predictions of each group are multiplied by, if ``form`` is "multiplicative".
    pooled_correction_, pooled_multiple_ : float
        The same for unknown groups with ``unknown="pooled"``.

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

    moved: ClassVar = MOVED
    strategy: AnyStrategy = shrinkage.DEFAULT
    _: KW_ONLY
    form: Form = "additive"
    effect: Column = "effect"
    groups: Column | Sequence[Column] = ()
    treatment: Column = "treatment"
    measure: AnyMeasure | None = None
    estimator: Estimator = "arm_means"
    method: Literal["automatic"] | Bootstrap = "automatic"
    alpha: Alpha = 0.05
    unknown: Literal["error", "pooled"] = "error"
    weight: Column | None = None
    cluster: Column | None = None
    random_state: Seeded = None

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
            errors = errors.without(part.sums.constant_arm, Status.FEW_EVENTS)
        self.pooled_correction_ = 0.0
        if self.unknown == "pooled":
            whole = all_groups(errors.error, moments.n.sum(-1), errors.usable)
            if part.lines is not None:
                whole = whole_under_design(errors, part.lines, plan.formula, moments)
            law = Detected(whole.value, whole.standard_error, whole.df)
            self.pooled_correction_ = float(np.nan_to_num(shrinkage.correction(self.strategy, law, self.alpha))[0])
        if part.lines is not None:
            errors, _ = under_design(errors, part.lines, plan.formula, moments)
        effects, usable = errors.effects, errors.usable
        self.groups_, self.status_ = part.groups, errors.status
        self.error_ = np.where(usable, effects.error, np.nan)
        detected = Detected(self.error_, np.where(usable, errors.error.standard_error, np.nan), errors.error.df)
        if plan.bootstrap is not None:
            resamples = plan.bootstrap.resamples
            if plan.by_rows and trial.lines is not None:
                drawn = resample_rows(trial.lines, plan.formula.columns, resamples, rng)[-1]
            else:
                drawn = part.sums.resampled(resamples, rng)
            draws = effects_of(drawn, plan.formula, errors.in_rest, fitted=moments)
            detected = Detected.from_draws(self.error_, draws.error, errors.error.df)
        self.error_se_ = np.where(usable, detected.standard_error, np.nan)
        amount = shrinkage.correction(self.strategy, detected, self.alpha)
        self.correction_ = np.where(usable, amount, self.pooled_correction_)
        with np.errstate(divide="ignore", invalid="ignore"):
            self.factor_ = np.where(self.correction_ == 0, 0.0, self.correction_ / self.error_)
        size = np.where(usable, moments.n.sum(-1), 0.0)
        typical = np.nan_to_num(effects.predicted) @ size / max(float(size.sum()), 1.0)
        self.multiple_ = multiple_of(self.correction_, effects.predicted)
        self.pooled_multiple_ = float(multiple_of(np.array(self.pooled_correction_), np.array(typical)))
        binary = plan.observes and part.sums.binary
        facts = {"predicted": effects.predicted, "observed": effects.observed, "binary": binary}
        for note in other_measure(plan.formula.measure, usable, facts):
            warnings.warn(note.text, UserWarning, stacklevel=2)
        labels = [g.label for g, s in zip(self.groups_, self.status_, strict=True) if s is not Status.OK]
        if labels:
            sentence = words.CORRECTED_BY_ALL if self.unknown == "pooled" else words.UNCORRECTED
            warnings.warn(phrases.about(sentence, labels), UserWarning, stacklevel=2)
        return self

    def _plan(self, X: object, y: npt.ArrayLike | None, sample_weight: npt.ArrayLike | None) -> Experiment:
        groups = as_tuple(self.groups)
        if self.form == "multiplicative" and self.measure == "difference":
            raise UsageError('form: "multiplicative" is for relative effects; with differences give "additive".')
        if not groups:
            raise UsageError("groups: none given; name the columns of X that define the group of a row.")
        refuse_empty(eager(X))
        validate_data(self, X, skip_check_array=True)
        means = self.estimator if isinstance(self.estimator, ArmMeans) else ArmMeans()
        observes = means.observed_effects is None
        if observes and y is None:
            raise UsageError("y: none given; pass the outcomes of the experiment, or observed_effects.")
        # Group columns keep their names, which labels show; the roles get names that no group column has.
        table = {str(name): _values(X, name, "groups") for name in groups}
        fresh = open_source(table).fresh

        def column(role: str, name: Column | None) -> str | None:
            if name is not None:
                table[fresh(role)] = _values(X, name, role.partition("[")[0])
            return None if name is None else fresh(role)

        effect, treatment = column("effect", self.effect), column("treatment", self.treatment if observes else None)
        measure, estimator = self.measure, self.estimator
        if isinstance(measure, Relative):
            measure = replace(measure, baseline=column("baseline", measure.baseline))
        weight, cluster = column("weight", self.weight), column("cluster", self.cluster)
        if isinstance(estimator, ArmMeans):
            estimator = replace(means, propensity=column("propensity", means.propensity))
        elif isinstance(estimator, (Regression, Aipw)):
            features = enumerate(as_tuple(estimator.features))
            estimator = replace(estimator, features=[column(f"features[{i}]", name) for i, name in features])
        if observes:
            table[fresh("outcome")] = np.asarray(target(y)).ravel()
        count = None
        if sample_weight is not None:
            given = np.asarray(sample_weight).ravel()
            whole = given.dtype.kind != "f" or bool((given == np.floor(given)).all())
            if not whole and weight is not None:
                raise UsageError("sample_weight: not whole numbers, so weights, as weight is; give one of the two.")
            name = fresh("sample_count" if whole else "sample_weight")
            table[name] = given
            count, weight = (name, weight) if whole else (None, name)
        source = open_source(table, count=count, weight=weight, cluster=cluster)
        if (source.designed or means.propensity is not None) and self.method != "automatic":
            raise UsageError(
                "method: a bootstrap treats rows as independent; with weights, clusters or propensities leave it out."
            )
        if source.like_weights:
            warnings.warn(
                phrases.Note("like_weights", values={"column": "sample_weight"}).text, UserWarning, stacklevel=3
            )
        return Experiment(
            source,
            effect=cast("str", effect),
            treatment=treatment,
            outcome=fresh("outcome") if observes else None,
            estimator=estimator,
            method=self.method,
            groups=[str(name) for name in groups],
            measure=measure,
            depth=len(groups),
        )

    def predict(self, X: object) -> FloatArray:
        """Corrected effects, one per row, from the effect and group columns alone: new rows have no treatment yet."""
        check_is_fitted(self, "correction_")
        named = as_tuple(self.groups)
        effect, *columns = known_columns(self, X, (self.effect, *named))
        values = _values(X, effect, "effect")
        try:
            effects = np.asarray(values, dtype=float)
        except (TypeError, ValueError):
            raise WrongType(f"effect: {effect!r} has values that are not numbers; recode it first.") from None
        if not np.isfinite(effects).all():
            raise DataError(f"effect: {int((~np.isfinite(effects)).sum()):,} predictions are NaN or infinite.")
        table = {str(name): _values(X, column, "groups") for name, column in zip(named, columns, strict=True)}
        source = open_source(table, missing_group="level")
        partition = source.rows(Request(grouping=source.grouping(list(table), len(table)))).partitions[-1]
        multiply = self.form == "multiplicative"
        known = dict(zip(self.groups_, self.multiple_ if multiply else self.correction_, strict=True))
        # A value may have changed its type since the fit, such as a number that is text now: its label has not.
        labels = {group.label: correction for group, correction in known.items()}
        corrections: list[float | None] = [known.get(group, labels.get(group.label)) for group in partition.groups]
        unknown = [group.label for group, c in zip(partition.groups, corrections, strict=True) if c is None]
        if unknown and self.unknown == "error":
            raise DataError(phrases.about(words.UNKNOWN_GROUPS, unknown))
        if unknown:
            warnings.warn(phrases.about(words.POOLED_GROUPS, unknown), UserWarning, stacklevel=2)
        pooled = self.pooled_multiple_ if multiply else self.pooled_correction_
        chosen = np.array([pooled if correction is None else correction for correction in corrections])[partition.codes]
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


def _values(X: object, column: Column | None, argument: str) -> object:
    frame = eager(X)
    refuse_empty(frame)
    assert column is not None
    values = column_of(np.asarray(X) if frame is None else frame, column, argument)
    if isinstance(values, nw.Series):
        if values.dtype in (nw.Int128, nw.UInt128):  # a group stays the one it is as text; other roles are numbers
            values = values.cast(nw.String if argument == "groups" else nw.Float64)
        return values.to_polars()
    if values.dtype != object or argument == "groups":  # large groups that differ may be equal as floats
        return values
    try:
        return values.astype(float)  # numbers held as objects
    except (TypeError, ValueError):
        return values


def _with_treatment(X: object, treatment: Column, arm: int) -> object:
    frame = eager(X)
    if frame is None:
        array = np.array(X)
        if not isinstance(treatment, int) or array.ndim != 2 or not -array.shape[1] <= treatment < array.shape[1]:
            raise UsageError(f"treatment: {treatment!r}; X is an array of shape {array.shape}: give a column's number.")
        array[:, treatment] = arm
        return array
    names = frame.columns
    name = names[treatment] if isinstance(treatment, int) and -len(names) <= treatment < len(names) else treatment
    if name not in names:
        raise UsageError(f"treatment: {treatment!r} is not a column of X; it has {', '.join(map(repr, names))}.")
    return frame.with_columns(nw.lit(arm, frame.schema[name]).alias(name)).to_native()


# ---- predictions of any model


@checked
def predicted_effects(
    model: object,
    X: object,
    *,
    measure: NamedMeasure = "relative",
    gives: NamedMeasure | None = None,
    baseline: Annotated[Any, FileForm("baseline")] = None,
    column: int | None = None,
    treatment: Column | None = None,
) -> FloatArray:
    """What effect does this model predict for each row of ``X``?

    Parameters
    ----------
    model : object
        An object with ``effect(X)`` (EconML) or ``predict(X)`` (causalml and most others); a pair of outcome models,
        (control, treated), whose ``predict_proba`` is used if there is one; or, with ``treatment``, one outcome model
        that has the treatment among its features (a single-model learner, or S-learner).
    X : object
        What the model takes.
    measure : {"relative", "difference"}, default "relative"
        What is wanted: a ratio (1 is no effect) or a difference; the same as in `treatment_bias`.
    gives : {"relative", "difference"}, default "difference"
        What a single model predicts. A pair of models gives either.
    baseline : array_like, optional
        Predicted outcome without treatment for each row: turns a difference into a ratio, 1 + difference / baseline,
        and back.
    column : int, optional
        Which column, if the model predicts several treatments.
    treatment : str or int, optional
        The column of X that holds the treatment, for a single outcome model: it predicts every row with 1 and with 0
        in that column.

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
    if isinstance(model, (tuple, list)) or treatment is not None:
        pair = (model, model) if treatment is not None else model
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or isinstance(pair[0], (tuple, list)):
            raise UsageError("model: give a pair (control, treated), or one outcome model with treatment.")
        for name, value in (("gives", gives), ("baseline", baseline)):
            if value is not None:
                raise UsageError(f"{name}: outcome models give any effect by themselves; leave it out.")
        rows = (X, X) if treatment is None else (_with_treatment(X, treatment, arm) for arm in (0, 1))
        before, after = (_outcome(part, row, column) for part, row in zip(pair, rows, strict=True))
        effect = after - before if measure == "difference" else _divide(after, before)
    else:
        method: Callable[[object], npt.ArrayLike] | None = getattr(model, "effect", getattr(model, "predict", None))
        if method is None:
            raise UsageError(f"model: {type(model).__name__} has neither effect(X) nor predict(X).")
        effect, given = _single(np.asarray(method(X), dtype=float), column), gives or "difference"
        if given != measure:
            if baseline is None:
                raise UsageError(
                    f"baseline: the model predicts a {given} effect, and a {measure} effect needs the outcome without "
                    f"treatment. Give it, or use measure={given!r} here and in the audit."
                )
            try:
                level = np.asarray(baseline, dtype=float)
            except (TypeError, ValueError):
                kind = type(baseline).__name__
                raise UsageError(
                    f"baseline: {kind} is not an array of numbers; give those a model predicts, as in model.predict(X)."
                ) from None
            if level.shape != effect.shape:
                raise UsageError(f"baseline: {level.size} values for {effect.size} rows.")
            effect = 1 + _divide(effect, level) if measure == "relative" else (effect - 1) * level
    if not np.isfinite(effect).all():
        raise DataError(f"model: {int((~np.isfinite(effect)).sum()):,} predicted effects are NaN or infinite.")
    return effect


def _outcome(model: Any, X: object, column: int | None) -> FloatArray:
    """Predicted mean outcomes: the probability of the last class, or the prediction."""
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X), dtype=float)[:, -1]
    if hasattr(model, "predict"):
        return _single(np.asarray(model.predict(X), dtype=float), column)
    raise UsageError(f"model: {type(model).__name__} has neither predict_proba(X) nor predict(X).")


def _single(predicted: FloatArray, column: int | None) -> FloatArray:
    if predicted.ndim == 1:
        return predicted
    wide = predicted.reshape(len(predicted), -1)
    if wide.shape[1] > 1 and column is None:
        raise UsageError(f"column: the model predicts {wide.shape[1]} effects per row; give the number of a column.")
    return wide[:, column or 0]


def _divide(top: FloatArray, bottom: FloatArray) -> FloatArray:
    if not (bottom > 0).all():
        raise DataError(
            f"baseline: {int((~(bottom > 0)).sum()):,} rows have a predicted outcome without treatment that is not "
            "above zero, as a relative effect requires. Clip it, or use differences."
        )
    return top / bottom
