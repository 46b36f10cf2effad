"""`EffectCorrector`: learn each group's error on experimental data, subtract it from new predictions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Annotated, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from isonomy.errors import DataError, UsageError
from isonomy.frames.estimators import Column, as_tuple
from isonomy.numerics.arrays import FloatArray, ObjectArray
from isonomy.numerics.status import Status
from isonomy.options import Alpha, Form, Seeded, check_parameters
from isonomy.treatment import wording
from isonomy.treatment.effects.collapse import CollapseName, Measure
from isonomy.treatment.effects.errors import effects_of, errors_of
from isonomy.treatment.effects.resample import resample_sums
from isonomy.treatment.effects.shrinkage import Detected, Strategy, factor
from isonomy.treatment.plan import Resamples, plan
from isonomy.treatment.tally import tally, tally_experiment, tally_rows


class EffectCorrector(TransformerMixin, BaseEstimator):
    """How should predicted effects be corrected so that no group's are off?

    ``fit`` estimates the error of each group's predicted effect on a randomised experiment and decides how much of it
    to trust; ``predict`` subtracts that share: f - gamma_g B_g (equation 33). Groups and treatment are columns of X.

    Parameters
    ----------
    strategy : str, default "positive_part"
        How much of the estimated error to subtract: "none" 0; "mean" all; "significant" all if it is significant at
        ``alpha`` (42); "mse_plus" (46); "mse_minus" (47); "positive_part" max(0, 1 - se^2 / B^2). See
        `correction_risk` for what each one leaves.
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
    variance : {"influence", "bootstrap"}, default "influence"
        Where standard errors come from.
    resamples : int, default 1000
        Of the bootstrap.
    alpha : float, default 0.05
        Error rate of the strategy "significant".
    unknown : {"error", "pooled"}, default "error"
        What to do with a group that was not there in ``fit``: refuse it, or use the correction of all groups together.
    random_state : int, Generator or None, default None
        Seed of the bootstrap.

    Attributes
    ----------
    groups_, error_, error_se_, factor_, correction_, status_
        One entry per group of ``fit``; ``correction_`` is what is subtracted.
    pooled_correction_
        What is subtracted for unknown groups with ``unknown="pooled"``.

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
        strategy: Strategy = "positive_part",
        *,
        effect_column: Column = "effect",
        group_columns: Annotated[Sequence[Column] | Column, Form("names")] = (),
        treatment_column: Column = "treatment",
        baseline_column: Column | None = None,
        measure: Measure = "relative",
        collapse: CollapseName | None = None,
        variance: Literal["influence", "bootstrap"] = "influence",
        resamples: Resamples = 1_000,
        alpha: Alpha = 0.05,
        unknown: Literal["error", "pooled"] = "error",
        random_state: Seeded = None,
    ) -> None:
        self.strategy: Strategy = strategy
        self.effect_column = effect_column
        self.group_columns = group_columns
        self.treatment_column = treatment_column
        self.baseline_column = baseline_column
        self.measure: Measure = measure
        self.collapse: CollapseName | None = collapse
        self.variance: Literal["influence", "bootstrap"] = variance
        self.resamples = resamples
        self.alpha = alpha
        self.unknown = unknown
        self.random_state = random_state

    def fit(self, X: object, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Estimate each group's error. ``y``: outcomes; ``sample_weight``: whole numbers of rows, as in ``count``."""
        check_parameters(self, self.get_params())
        groups = as_tuple(self.group_columns)
        if not groups:
            raise UsageError("group_columns: none given; name the columns of X that say which group a row belongs to.")
        validate_data(self, X, skip_check_array=True)
        roles = {"effect": self.effect_column, "treatment": self.treatment_column}
        roles |= {} if self.baseline_column is None else {"baseline": self.baseline_column}
        source, names = tally_experiment(X, y, sample_weight, groups, roles)
        asked = plan(
            source,
            effect=names["effect"],
            treatment=names["treatment"],
            outcome=names["outcome"],
            baseline=names.get("baseline"),
            groups=[str(name) for name in groups],
            measure=self.measure,
            collapse=self.collapse,
            resamples=self.resamples,
            depth=len(groups),
        )
        rng = np.random.default_rng(self.random_state)
        counted = tally(source, asked, rng)
        sums = counted.sums[-1]
        moments = sums.moments()
        errors = errors_of(moments, asked.formula)
        self.groups_, self.status_ = counted.groups[-1], errors.status
        self.error_ = np.where(errors.usable, errors.effects.error, np.nan)
        if self.variance == "bootstrap":
            draws = effects_of(resample_sums(sums, self.resamples, rng), asked.formula, errors.in_rest)
            detected = Detected.from_draws(self.error_, draws.error, errors.error.df)
        else:
            detected = Detected.from_law(self.error_, np.where(errors.usable, errors.error.se, np.nan), errors.error.df)
        self.error_se_ = np.where(errors.usable, detected.se, np.nan)
        self.factor_ = factor(self.strategy, detected, self.alpha)
        whole = errors.error.together(moments.n.sum(-1), errors.usable)
        share = factor(self.strategy, Detected.from_law(whole.value, whole.se, whole.df), self.alpha)
        self.pooled_correction_ = float(np.nan_to_num(share * whole.value)[0])
        otherwise = self.pooled_correction_ if self.unknown == "pooled" else 0.0
        self.correction_ = np.where(errors.usable, self.factor_ * np.nan_to_num(self.error_), otherwise)
        labels = [g.label for g, s in zip(self.groups_, self.status_, strict=True) if s is not Status.OK]
        if labels:
            say = wording.corrected_by_all if self.unknown == "pooled" else wording.uncorrected
            warnings.warn(say(labels), UserWarning, stacklevel=2)
        return self

    def predict(self, X: object) -> FloatArray:
        """Corrected effects, one per row."""
        check_is_fitted(self, "correction_")
        validate_data(self, X, skip_check_array=True, reset=False)
        effects, groups, codes = tally_rows(X, self.effect_column, as_tuple(self.group_columns))
        known = dict(zip(self.groups_, self.correction_, strict=True))
        # A value may have changed its type since the fit, such as a number that is text now: its label has not.
        labels = {group.label: correction for group, correction in known.items()}
        corrections = [known.get(group, labels.get(group.label)) for group in groups]
        unknown = [group.label for group, correction in zip(groups, corrections, strict=True) if correction is None]
        if unknown and self.unknown == "error":
            raise DataError(wording.unknown_groups(unknown))
        filled = [self.pooled_correction_ if correction is None else correction for correction in corrections]
        return effects - np.array(filled)[codes]

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
