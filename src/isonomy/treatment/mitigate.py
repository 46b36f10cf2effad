"""`EffectCorrector`: learn each group's error on experimental data, subtract it from new predictions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from isonomy.errors import DataError, UsageError
from isonomy.frames.estimators import Column, as_tuple, eager, known_columns, refuse_empty
from isonomy.inference.designs import FEWEST
from isonomy.numerics.arrays import FloatArray, ObjectArray
from isonomy.numerics.status import Status
from isonomy.options import Alpha, Seeded, check_parameters
from isonomy.results import phrases
from isonomy.treatment import wording
from isonomy.treatment.decide import other_measure
from isonomy.treatment.effects.collapse import CollapseName, Estimator, Measure, NamedMeasure
from isonomy.treatment.effects.designs import laws_of, together
from isonomy.treatment.effects.errors import constant_arm, effects_of, errors_of
from isonomy.treatment.effects.heldout import multiple_of
from isonomy.treatment.effects.resample import resample_rows, resample_sums
from isonomy.treatment.effects.shrinkage import (
    DEFAULT,
    AnyStrategy,
    Borrowing,
    Custom,
    Detected,
    Form,
    Strategy,
    correction,
)
from isonomy.treatment.estimate import check_measure, known_effects
from isonomy.treatment.plan import ObservedEffects, Resamples, Variance, plan
from isonomy.treatment.tally import tally, tally_experiment, tally_rows


class EffectCorrector(TransformerMixin, BaseEstimator):
    """How should predicted effects be corrected so that no group's are off?

    ``fit`` estimates the error of each group's predicted effect on a randomised experiment and decides how much of it
    to trust; ``predict`` subtracts that share: f - gamma_g B_g (equation 33). Groups and treatment are columns of X.

    Parameters
    ----------
    strategy : str or callable, default "empirical_bayes_mixture"
        What to subtract. "empirical_bayes": errors shrunk towards their common mean, the more the less they differ
        beyond chance (DerSimonian and Laird); "empirical_bayes_t": the same with a tail that leaves outlying groups
        where they are; "empirical_bayes_mixture": true errors are normal, or alike in most groups, around 0 or anywhere
        else, averaged with the likelihood of each. Of each group's own error: "none" 0; "mean" all; "significant" all
        if it is significant at ``alpha`` (42); "mse_plus" (46); "mse_minus" (47); "positive_part"
        max(0, 1 - se^2 / B^2); see `correction_risk` for what each of these leaves. Or a function of two arrays, the
        errors of all groups and their standard errors, that returns what to subtract from each group's.
    form : {"additive", "multiplicative"}, default "additive"
        Subtract the correction from every prediction of a group; or, for relative effects, multiply them so that the
        group's effect falls by it. A ratio then stays above 0, which subtracting does not ensure.
    effect_column : str or int, default "effect"
        Column of X with the predicted effects: its name, or its number.
    group_columns : str, int or list of them
        Columns of X that say which group a row belongs to. Several mean their intersection.
    treatment_column : str or int, default "treatment"
        Column of X with the 0/1 assignment; needed by ``fit`` only.
    baseline_column : str or int, optional
        Column of X with the predicted outcome without treatment, as in `treatment_bias`; needed by ``fit`` only.
    measure, collapse : str, optional
        As in `treatment_bias`.
    estimator : {"arm_means", "regression", "aipw"}, default "arm_means"
        As in `treatment_bias`; the last two adjust for ``feature_columns``.
    feature_columns : str, int or list of them, optional
        Numeric columns of X to adjust for; needed by ``fit`` only.
    variance : {"influence", "bootstrap", "bootstrap_rows"}, default "influence"
        Where standard errors come from, as in `treatment_bias`.
    resamples : int, default 1000
        Of the bootstrap.
    alpha : float, default 0.05
        Error rate of the strategy "significant".
    unknown : {"error", "pooled"}, default "error"
        What to do with a group that was not there in ``fit``: refuse it, or use the correction of all groups together
        and warn.
    random_state : int, Generator or None, default None
        Seed of the bootstrap.
    observed_effects : mapping of str to (float, float), optional
        {group: (effect, standard error)} for effects estimated elsewhere, as in `treatment_bias`; ``fit`` then needs
        neither treatment nor outcomes. Relative effects need ``baseline_column``.
    weight_column, cluster_column : str or int, optional
        Columns of X with the people each row stands for (only the proportions matter), and with what says which rows
        belong together, as ``weight`` and ``cluster`` of `treatment_bias`; needed by ``fit`` only, with
        ``variance="influence"``. A group of fewer than 10 effective clusters is left uncorrected.
    propensity_column : str or int, optional
        Column of X with the known probability of treatment of each row, as in `treatment_bias`; needed by ``fit`` only.

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
        By what predictions of each group are multiplied, where ``form`` is "multiplicative".
    pooled_correction_ : float
        What is subtracted for unknown groups with ``unknown="pooled"``.
    pooled_multiple_ : float
        The same as a multiple.

    Examples
    --------
    >>> import isonomy as iso
    >>> table = iso.simulate.uplift(60_000, groups=["a", "b"], baseline=0.4, error={"b": 0.5}).frame()
    >>> corrector = iso.EffectCorrector(group_columns="group").fit(table, table["outcome"])
    >>> corrector.correction_.round(1).tolist()
    [0.0, 0.5]
    >>> corrector.predict(table.head(2)).shape
    (2,)
    """

    def __init__(
        self,
        strategy: Strategy | Borrowing | Custom = DEFAULT,
        *,
        form: Form = "additive",
        effect_column: Column = "effect",
        group_columns: Column | Sequence[Column] = (),
        treatment_column: Column = "treatment",
        baseline_column: Column | None = None,
        measure: NamedMeasure | None = None,
        collapse: CollapseName | None = None,
        estimator: Estimator = "arm_means",
        feature_columns: Column | Sequence[Column] = (),
        variance: Variance = "influence",
        resamples: Resamples = 1_000,
        alpha: Alpha = 0.05,
        unknown: Literal["error", "pooled"] = "error",
        random_state: Seeded = None,
        observed_effects: ObservedEffects | None = None,
        weight_column: Column | None = None,
        cluster_column: Column | None = None,
        propensity_column: Column | None = None,
    ) -> None:
        self.strategy: AnyStrategy = strategy
        self.form: Form = form
        self.effect_column = effect_column
        self.group_columns = group_columns
        self.treatment_column = treatment_column
        self.baseline_column = baseline_column
        self.measure: Measure | None = measure
        self.collapse: CollapseName | None = collapse
        self.estimator: Estimator = estimator
        self.feature_columns = feature_columns
        self.variance: Variance = variance
        self.resamples = resamples
        self.alpha = alpha
        self.unknown = unknown
        self.random_state = random_state
        self.observed_effects = observed_effects
        self.weight_column = weight_column
        self.cluster_column = cluster_column
        self.propensity_column = propensity_column

    def fit(self, X: object, y: npt.ArrayLike | None = None, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Estimate each group's error.

        ``y``: outcomes. ``sample_weight``: whole numbers count equal rows; any others weigh them as ``weight_column``
        does, which is the place for a survey's weights, whole or not.
        """
        check_parameters(self, self.get_params())
        groups = as_tuple(self.group_columns)
        if self.form == "multiplicative" and self.measure == "difference":
            raise UsageError('form: "multiplicative" is for relative effects; with differences give "additive".')
        if not groups:
            raise UsageError("group_columns: none given; name the columns of X that say which group a row belongs to.")
        refuse_empty(eager(X))
        validate_data(self, X, skip_check_array=True)
        experiment = self.observed_effects is None
        if experiment and y is None:
            raise UsageError("y: none given; pass the outcomes of the experiment, or observed_effects.")
        if not experiment and self.variance != "influence":
            raise UsageError('observed_effects: brought effects have standard errors; use variance="influence".')
        roles = {"effect": self.effect_column} | ({"treatment": self.treatment_column} if experiment else {})
        further = {"baseline": self.baseline_column, "weight": self.weight_column, "cluster": self.cluster_column}
        further["propensity"] = self.propensity_column
        features = {f"feature_{i}": name for i, name in enumerate(as_tuple(self.feature_columns))}
        roles |= {role: name for role, name in (further | features).items() if name is not None}
        outcomes: npt.ArrayLike = y if y is not None else ()
        if not experiment:  # of nobody: effects are brought
            outcomes = np.zeros(tally_rows(X, self.effect_column, {str(name): name for name in groups})[0].size)
        source, names = tally_experiment(X, outcomes, sample_weight, groups, roles)
        if (source.designed or "propensity" in roles) and self.variance != "influence":
            raise UsageError(
                f'variance: "{self.variance}" takes rows as independent; with weights, clusters or propensities use '
                '"influence".'
            )
        asked = plan(
            source,
            effect=names["effect"],
            treatment=names.get("treatment"),
            outcome=names["outcome"] if experiment else None,
            observed_effects=self.observed_effects,
            baseline=names.get("baseline"),
            propensity=names.get("propensity"),
            estimator=self.estimator,
            features=[names[role] for role in features],
            variance=self.variance if experiment else "influence",
            groups=[str(name) for name in groups],
            measure=self.measure,
            collapse=self.collapse,
            resamples=self.resamples,
            depth=len(groups),
        )
        if source.like_weights:
            warnings.warn(phrases.like_weights("sample_weight"), UserWarning, stacklevel=2)
        rng = np.random.default_rng(self.random_state)
        counted = tally(source, asked, rng)
        sums = counted.sums[-1]
        moments = sums.moments()
        known = None
        if self.observed_effects is not None:
            known = known_effects(self.observed_effects, counted.groups[-1], len(sums.n))
        check_measure(sums, asked, known)
        errors = errors_of(moments, asked.formula, known)
        if known is None:  # an arm that is all 0 or all 1 shows no spread to shrink its error by
            errors = errors.without(constant_arm(sums), Status.FEW_EVENTS)
        whole = errors.error.together(moments.n.sum(-1), errors.usable)
        if counted.designs is not None and counted.lines is not None:
            design, lines = counted.designs[-1], replace(counted.lines, groups=counted.lines.groups[-1:])
            lines = replace(lines, weight=design.mass)
            whole = together(lines, design, errors, asked.formula, moments, counted.strata[-1])
            error, bias, totals = laws_of(lines, design, errors, asked.formula, moments, counted.strata[-1])
            errors = errors.under(error, bias, totals.effective < FEWEST)
        self.groups_, self.status_ = counted.groups[-1], errors.status
        self.error_ = np.where(errors.usable, errors.effects.error, np.nan)
        if self.variance != "influence":
            if counted.lines is not None and self.variance == "bootstrap_rows":
                drawn = resample_rows(counted.lines, asked.formula.columns, self.resamples, rng)[-1]
            else:
                drawn = resample_sums(sums, self.resamples, rng)
            draws = effects_of(drawn, asked.formula, errors.in_rest, fitted=moments)
            detected = Detected.from_draws(self.error_, draws.error, errors.error.df)
        else:
            detected = Detected.from_law(self.error_, np.where(errors.usable, errors.error.se, np.nan), errors.error.df)
        self.error_se_ = np.where(errors.usable, detected.se, np.nan)
        self.pooled_correction_ = otherwise = 0.0
        if self.unknown == "pooled":
            pooled = correction(self.strategy, Detected.from_law(whole.value, whole.se, whole.df), self.alpha)
            self.pooled_correction_ = otherwise = float(np.nan_to_num(pooled)[0])
        self.correction_ = np.where(errors.usable, correction(self.strategy, detected, self.alpha), otherwise)
        with np.errstate(divide="ignore", invalid="ignore"):
            self.factor_ = np.where(self.correction_ == 0, 0.0, self.correction_ / self.error_)
        predicted, size = errors.effects.predicted, np.where(errors.usable, moments.n.sum(-1), 0.0)
        typical = np.nan_to_num(predicted) @ size / max(float(size.sum()), 1.0)
        self.multiple_ = multiple_of(self.correction_, predicted)
        self.pooled_multiple_ = float(multiple_of(np.array(self.pooled_correction_), np.array(typical)))
        effects = errors.effects
        for warning in other_measure(
            asked.formula.measure, errors.usable, effects.predicted, effects.observed, binary=experiment and sums.binary
        ):
            warnings.warn(warning, UserWarning, stacklevel=2)
        labels = [g.label for g, s in zip(self.groups_, self.status_, strict=True) if s is not Status.OK]
        if labels:
            say = wording.corrected_by_all if self.unknown == "pooled" else wording.uncorrected
            warnings.warn(say(labels), UserWarning, stacklevel=2)
        return self

    def predict(self, X: object) -> FloatArray:
        """Corrected effects, one per row, from the effect and group columns alone: new rows have no treatment yet."""
        check_is_fitted(self, "correction_")
        named = as_tuple(self.group_columns)
        effect, *columns = known_columns(self, X, (self.effect_column, *named))
        effects, groups, codes = tally_rows(X, effect, dict(zip(map(str, named), columns, strict=True)))
        multiply = self.form == "multiplicative"
        known = dict(zip(self.groups_, self.multiple_ if multiply else self.correction_, strict=True))
        # A value may have changed its type since the fit, such as a number that is text now: its label has not.
        labels = {group.label: correction for group, correction in known.items()}
        corrections: list[float | None] = [known.get(group, labels.get(group.label)) for group in groups]
        unknown = [group.label for group, correction in zip(groups, corrections, strict=True) if correction is None]
        if unknown and self.unknown == "error":
            raise DataError(wording.unknown_groups(unknown))
        if unknown:
            warnings.warn(wording.pooled_groups(unknown), UserWarning, stacklevel=2)
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
