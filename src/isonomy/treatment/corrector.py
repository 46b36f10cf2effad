"""`EffectCorrector`: learn each group's error on experimental data, subtract it from new predictions."""

from __future__ import annotations

import warnings
from typing import Any

import narwhals as nw
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from isonomy.errors import DataError, UnknownColumn, UsageError, choose
from isonomy.frames import open_source
from isonomy.frames.sums import plain_keys
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.status import Status
from isonomy.treatment import wording
from isonomy.treatment.estimate import estimate, values
from isonomy.treatment.mitigate import DEFAULT_STRATEGY, STRATEGIES, Detected, factor
from isonomy.treatment.plan import Plan, make_plan
from isonomy.treatment.ratio import Ratio, standardised_rest
from isonomy.treatment.resample import resample_cells
from isonomy.treatment.tally import tally


class EffectCorrector(TransformerMixin, BaseEstimator):
    """How should predicted effects be corrected so that no group's are off?

    ``fit`` estimates the error of each group's predicted effect on a randomised experiment and decides how much of it
    to trust; ``predict`` subtracts that share: f - gamma_g B_g (equation 33). Groups and treatment are columns of X.

    Parameters
    ----------
    strategy
        How much of the estimated error to subtract: "none" 0; "mean" all; "significant" all if it is significant at
        ``alpha`` (42); "mse_plus" (46); "mse_minus" (47); "positive_part" max(0, 1 - se^2 / B^2), the default. See
        `correction_risk` for what each one leaves.
    effect_column, group_columns, treatment_column, baseline_column
        Columns of X: names, or positions where X is an array. Several group columns mean their intersection. Only the
        first two are needed to predict.
    measure, collapse, variance, resamples
        As in `treatment_bias`.
    unknown
        What to do with a group that was not there in ``fit``: "error", or "pooled" for the correction of all groups
        together.
    random_state
        Seed of the bootstrap.

    Attributes
    ----------
    groups_, error_, error_se_, factor_, correction_, status_
        One entry a group of ``fit``; ``correction_`` is what is subtracted.
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
        strategy: str = DEFAULT_STRATEGY,
        *,
        effect_column: str | int = "effect",
        group_columns: Any = (),
        treatment_column: str | int = "treatment",
        baseline_column: str | int | None = None,
        measure: str = "relative",
        collapse: str | None = None,
        variance: str = "influence",
        resamples: int = 1_000,
        alpha: float = 0.05,
        unknown: str = "error",
        random_state: int | None = None,
    ) -> None:
        self.strategy = strategy
        self.effect_column = effect_column
        self.group_columns = group_columns
        self.treatment_column = treatment_column
        self.baseline_column = baseline_column
        self.measure = measure
        self.collapse = collapse
        self.variance = variance
        self.resamples = resamples
        self.alpha = alpha
        self.unknown = unknown
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> EffectCorrector:
        """Estimate each group's error. ``y``: outcomes; ``sample_weight``: whole numbers of rows, as in ``count``."""
        choose("strategy", self.strategy, STRATEGIES)
        choose("unknown", self.unknown, ("error", "pooled"))
        choose("variance", self.variance, ("influence", "bootstrap"))
        validate_data(self, X, skip_check_array=True)
        table = {name: _column(X, column) for name, column in self._roles().items()}
        table["outcome"] = np.asarray(y).ravel()
        if sample_weight is not None:
            table["__weight"] = np.asarray(sample_weight).ravel()
        source = open_source(table, count=None if sample_weight is None else "__weight")
        plan = self._plan()
        cells = tally(source, plan).partitions[-1]
        moments = cells.moments()
        found = estimate(moments, plan)
        self.status_ = found.status
        self.groups_ = cells.groups
        self.error_ = np.where(found.usable, found.effects.error, np.nan)
        whole = _together(found.error, moments.n.sum(-1), found.usable)
        if self.variance == "bootstrap":
            rng = np.random.default_rng(self.random_state)
            drawn = values(resample_cells(cells, self.resamples, rng), plan, found.in_rest)
            detected = Detected.from_draws(self.error_, drawn.error, found.error.df)
        else:
            detected = Detected.from_law(self.error_, np.where(found.usable, found.error.se, np.nan), found.error.df)
        self.error_se_ = np.where(found.usable, detected.se, np.nan)
        self.factor_ = factor(self.strategy, detected, self.alpha)
        pooled = Detected.from_law(whole.value, whole.se, whole.df)
        self.pooled_correction_ = float(np.nan_to_num(factor(self.strategy, pooled, self.alpha) * whole.value)[0])
        self.correction_ = np.where(found.usable, self.factor_ * np.nan_to_num(self.error_), self._otherwise())
        self._table_ = _lookup(self._groups(X), cells.groups, self.correction_)
        self._warn()
        return self

    def predict(self, X: Any) -> FloatArray:
        """Corrected effects, one a row."""
        import polars as pl

        check_is_fitted(self, "correction_")
        validate_data(self, X, skip_check_array=True, reset=False)
        effect = np.asarray(_column(X, self.effect_column), dtype=float)
        if not np.isfinite(effect).all():
            raise DataError(f"effect: {int((~np.isfinite(effect)).sum()):,} predictions are NaN or infinite.")
        keys = self._groups(X)
        keys = keys.with_columns(pl.col(k).cast(self._table_.schema[k], strict=False) for k in keys.columns)
        found = keys.join(self._table_, on=keys.columns, how="left", nulls_equal=True, maintain_order="left")
        correction = found["__correction"]
        if correction.null_count() and self.unknown == "error":
            absent = found.filter(correction.is_null()).select(keys.columns).unique(maintain_order=True)
            labels = [" & ".join(f"{k}={v}" for k, v in row.items()) for row in absent.head(20).iter_rows(named=True)]
            raise DataError(wording.unknown_groups(labels))
        return effect - correction.fill_null(self.pooled_correction_).to_numpy()

    def transform(self, X: Any) -> FloatArray:
        """Corrected effects as a table of one column."""
        return self.predict(X)[:, None]

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The name of the column that `transform` returns."""
        return np.array(["corrected_effect"], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.string = True
        return tags

    def _names(self) -> list[str | int]:
        columns = self.group_columns
        return [columns] if isinstance(columns, (str, int)) else list(columns)

    def _roles(self) -> dict[str, str | int]:
        if not self._names():
            raise UsageError("group_columns: none given; name the columns of X that say which group a row belongs to.")
        roles: dict[str, str | int] = {str(name): name for name in self._names()}
        roles |= {"__effect": self.effect_column, "__treatment": self.treatment_column}
        return roles | ({} if self.baseline_column is None else {"__baseline": self.baseline_column})

    def _plan(self) -> Plan:
        groups = [str(name) for name in self._names()]
        return make_plan(
            effect="__effect",
            groups=groups,
            treatment="__treatment",
            outcome="outcome",
            baseline=None if self.baseline_column is None else "__baseline",
            measure=self.measure,
            collapse=self.collapse,
            resamples=self.resamples,
            depth=len(groups),
        )

    def _groups(self, X: Any) -> Any:
        """The group columns of X as a polars frame in plain types."""
        from isonomy.frames import collect

        frame = collect(open_source({str(name): _column(X, name) for name in self._names()}).frame)
        return plain_keys(frame, frame.columns)

    def _otherwise(self) -> float:
        return self.pooled_correction_ if self.unknown == "pooled" else 0.0

    def _warn(self) -> None:
        labels = [g.label for g, s in zip(self.groups_, self.status_, strict=True) if s is not Status.OK]
        if labels:
            say = wording.corrected_by_all if self.unknown == "pooled" else wording.uncorrected
            warnings.warn(say(labels), UserWarning, stacklevel=3)


def _together(groups: Ratio, size: FloatArray, usable: Any) -> Ratio:
    """All groups as one, each with its share of rows: the rest of a group that has no rows."""
    extended = Ratio(*(np.append(getattr(groups, name), 1.0) for name in ("top", "bottom", "tt", "tb", "bb", "df")))
    rest = standardised_rest(extended, np.append(size, 0.0), np.append(usable, False))
    return Ratio(*(getattr(rest, name)[-1:] for name in ("top", "bottom", "tt", "tb", "bb", "df")))


def _lookup(keys: Any, groups: tuple[Any, ...], correction: FloatArray) -> Any:
    """Group values and their correction, in the types of the fitted columns."""
    import polars as pl

    columns = {
        name: pl.Series(name, [dict(g.items)[name] for g in groups], dtype=keys.schema[name]) for name in keys.columns
    }
    return pl.DataFrame({**columns, "__correction": correction})


def _column(X: Any, column: str | int) -> Any:
    """One column of a frame (by name or position) or of an array (by position)."""
    if isinstance(X, np.ndarray):
        if not isinstance(column, int) or X.ndim != 2 or not 0 <= column < X.shape[1]:
            raise UsageError(f"X: an array of shape {X.shape} has no column {column!r}; name columns by position.")
        values = X[:, column]
        return _numbers(values) if values.dtype == object else values
    try:
        frame = nw.from_native(X, eager_only=True)
    except TypeError:
        raise UsageError(
            f"X: cannot read {type(X).__name__}; give a pandas, polars or pyarrow table or an array."
        ) from None
    if isinstance(column, int) and 0 <= column < len(frame.columns):
        column = frame.columns[column]
    if column not in frame.columns:
        raise UnknownColumn("X", column, frame.columns)
    return (
        frame[str(column)].to_polars()
        if not frame.implementation.is_pandas()
        else _numbers(frame[str(column)].to_numpy())
    )


def _numbers(values: Any) -> Any:
    """Numbers held as objects, as numbers; anything else as it is."""
    if values.dtype != object:
        return values
    try:
        return values.astype(float)
    except (TypeError, ValueError):
        return values
