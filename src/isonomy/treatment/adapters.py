"""Predicted effects from any fitted model: EconML, causalml, or whatever has ``effect(X)`` or ``predict(X)``."""

from __future__ import annotations

from typing import Any

import numpy as np

from isonomy.errors import DataError, UsageError, choose
from isonomy.numerics.arrays import FloatArray
from isonomy.treatment.collapse import MEASURES


def predicted_effects(
    model: object,
    X: Any,
    *,
    measure: str = "relative",
    gives: str | None = None,
    baseline: Any = None,
    column: int | None = None,
) -> FloatArray:
    """What effect does this model predict for each row of ``X``?

    Parameters
    ----------
    model
        An object with ``effect(X)`` (EconML) or ``predict(X)`` (causalml and most others); or a pair of outcome
        models, (control, treated), of which ``predict_proba`` is used where there is one.
    measure
        What is wanted: "relative" (a ratio, 1 is no effect) or "difference"; the same as in `treatment_bias`.
    gives
        What a single model predicts; default "difference". A pair of models gives either.
    baseline
        Predicted outcome without treatment for each row (an array, or a model): turns a difference into a ratio,
        1 + difference / baseline, and back.
    column
        Which column, where the model predicts several treatments.

    >>> class Model:
    ...     def effect(self, X):
    ...         return X[:, :1] * 0.1
    >>> predicted_effects(Model(), np.array([[1.0], [2.0]]), measure="relative", baseline=[0.5, 0.4]).round(3).tolist()
    [1.2, 1.5]
    """
    choose("measure", measure, MEASURES)
    if isinstance(model, (tuple, list)):
        if len(model) != 2:
            raise UsageError(f"model: {len(model)} models; a pair is (control, treated).")
        for name, value in (("gives", gives), ("baseline", baseline)):
            if value is not None:
                raise UsageError(f"{name}: a pair of outcome models gives any effect by itself; leave it out.")
        control, treated = (_outcome(m, X, column) for m in model)
        return _checked(treated - control if measure == "difference" else _divide(treated, control))
    given = choose("gives", gives or "difference", MEASURES)
    method = getattr(model, "effect", None) or getattr(model, "predict", None)
    if method is None:
        raise UsageError(f"model: {type(model).__name__} has neither effect(X) nor predict(X).")
    effect = _one(np.asarray(method(X), dtype=float), column)
    if given == measure:
        return _checked(effect)
    if baseline is None:
        raise UsageError(
            f"baseline: the model gives a {given} effect; a {measure} one needs the outcome without treatment. "
            f"Give it, or ask for measure={given!r} here and in the audit."
        )
    level = _outcome(baseline, X, None) if hasattr(baseline, "predict") else np.asarray(baseline, dtype=float)
    if level.shape != effect.shape:
        raise UsageError(f"baseline: {level.size} values for {effect.size} rows.")
    return _checked(1 + _divide(effect, level) if measure == "relative" else (effect - 1) * level)


def _outcome(model: Any, X: Any, column: int | None) -> FloatArray:
    """Predicted mean outcome: the probability of the last class, or the prediction."""
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X), dtype=float)[:, -1]
    return _one(np.asarray(model.predict(X), dtype=float), column)


def _one(predicted: FloatArray, column: int | None) -> FloatArray:
    if predicted.ndim == 1:
        return predicted
    wide = predicted.reshape(len(predicted), -1)
    if wide.shape[1] > 1 and column is None:
        raise UsageError(f"column: the model predicts {wide.shape[1]} effects a row; say which.")
    return wide[:, column or 0]


def _divide(top: FloatArray, bottom: FloatArray) -> FloatArray:
    if not (bottom > 0).all():
        raise DataError(
            f"baseline: {int((~(bottom > 0)).sum()):,} rows have a predicted outcome without treatment that is not "
            "above zero, as a relative effect needs. Clip it, or use differences."
        )
    return top / bottom


def _checked(effect: FloatArray) -> FloatArray:
    if not np.isfinite(effect).all():
        raise DataError(f"model: {int((~np.isfinite(effect)).sum()):,} predicted effects are NaN or infinite.")
    return effect
