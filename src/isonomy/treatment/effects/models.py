"""Predicted effects from any fitted model: EconML, causalml, or whatever has ``effect(X)`` or ``predict(X)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from isonomy.errors import DataError, UsageError
from isonomy.numerics.arrays import FloatArray
from isonomy.treatment.effects.collapse import Measure


@runtime_checkable
class Predictor(Protocol):
    """A fitted model; one with ``predict_proba`` is a classifier, and that is used."""

    def predict(self, X: object, /) -> npt.ArrayLike:
        """One prediction per row of ``X``."""


def effects_of(
    model: object,
    X: object,
    *,
    measure: Measure,
    gives: Measure | None,
    baseline: npt.ArrayLike | Predictor | None,
    column: int | None,
) -> FloatArray:
    """The effect that one model predicts, or two outcome models between them, in the measure that is wanted."""
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
    effect, given = _one(np.asarray(method(X), dtype=float), column), gives or "difference"
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
    return _one(np.asarray(model.predict(X), dtype=float), column)


def _one(predicted: FloatArray, column: int | None) -> FloatArray:
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
            "above zero, as a relative effect needs. Clip it, or use differences."
        )
    return top / bottom


def _finite(effect: FloatArray) -> FloatArray:
    if not np.isfinite(effect).all():
        raise DataError(f"model: {int((~np.isfinite(effect)).sum()):,} predicted effects are NaN or infinite.")
    return effect
