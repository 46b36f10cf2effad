"""The public functions around an audit: predictions of a model, rows that are needed, the risk of corrections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, cast

import numpy as np
import numpy.typing as npt

from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.tails import t_isf
from isonomy.options import Alpha, Draws, Finite, Fraction, Positive, Power, checked
from isonomy.options import Form as FileForm
from isonomy.treatment.effects.collapse import NamedMeasure
from isonomy.treatment.effects.models import Predictor, effects_of
from isonomy.treatment.effects.planning import sizes_from_pilot, sizes_from_rates
from isonomy.treatment.effects.shrinkage import STRATEGIES, Loss, Strategy, ratios_of, risk_of, strategies_of
from isonomy.treatment.result import TreatmentBiasResult


@checked
def correction_risk(
    ratios: Sequence[float] | FloatArray | None = None,
    strategies: Sequence[str] | None = None,
    *,
    alpha: Alpha = 0.05,
    loss: Loss = "squared",
) -> dict[str, FloatArray]:
    """How large an error does each correction leave, on average, when the true error is b and its estimate N(b, sd^2)?

    Parameters
    ----------
    ratios : array_like, optional
        True errors b / sd; 0 to 4 by default.
    strategies : list of str, optional
        Names out of the paper's and "positive_part"; all by default. What "empirical_bayes" leaves depends on the
        other groups.
    alpha : float, default 0.05
        Error rate of the strategy "significant".
    loss : {"squared", "absolute"}, default "squared"
        Mean of ((b - gamma B) / sd)^2, or of |b - gamma B| / sd.

    Returns
    -------
    dict of str to ndarray
        The risk under the key of each strategy, and the ratios under "ratio". ``none`` has squared risk (b / sd)^2 and
        ``mean`` has 1. No strategy is below all others everywhere.

    Examples
    --------
    >>> import isonomy as iso
    >>> risk = iso.correction_risk([0.0, 1.0, 2.0, 3.0])
    >>> risk["positive_part"].round(2).tolist()
    [0.33, 0.86, 1.45, 1.41]
    """
    at = np.linspace(0, 4, 81) if ratios is None else ratios_of(ratios)
    chosen = cast("tuple[Strategy, ...]", strategies_of(strategies, STRATEGIES))
    return {"ratio": at} | {name: risk_of(name, at, alpha, loss) for name in chosen}


@checked
def bias_sample_size(
    bias: Positive,
    *,
    pilot: TreatmentBiasResult | None = None,
    baseline: Finite | Mapping[str, float] | None = None,
    effect: Finite | Mapping[str, float] | None = None,
    measure: NamedMeasure = "relative",
    treated: Fraction = 0.5,
    spread: Positive | None = None,
    groups: Draws | None = None,
    alpha: Alpha = 0.05,
    power: Power = 0.8,
) -> dict[str, list[str] | FloatArray]:
    """How many rows does an experiment need to find a bias of this size in a group?

    Parameters
    ----------
    bias : float
        The true bias to be found, in units of the effect.
    pilot : TreatmentBiasResult, optional
        A result of `treatment_bias` on a smaller table: its groups, intervals, treated shares and events are used in
        place of ``baseline`` to ``groups``.
    baseline, effect : float or mapping of str to float, optional
        Without a pilot: the mean outcome without treatment, and the effect in the given ``measure``; one for all
        groups, or {group: number}.
    measure : {"relative", "difference"}, default "relative"
        As in `treatment_bias`.
    treated : float, default 0.5
        Share of rows that are treated.
    spread : float, optional
        Standard deviation of the outcome within an arm; a 0/1 outcome has its own.
    groups : int, default 2
        Groups that are compared, where none are named by ``baseline`` or ``effect``.
    alpha, power : float, default 0.05 and 0.8
        Error rate, shared by the groups (Bonferroni, where Holm's method starts; two groups are one hypothesis), and
        the probability of finding it.

    Returns
    -------
    dict of str to list or ndarray
        One entry per group: ``group``, ``rows`` and ``treated``, rows of the group and the treated ones among them.

    Notes
    -----
    (z_alpha/2 + z_power)^2 times the variance of one row over the squared bias; for 0/1 outcomes at least as many as
    bring log(2 groups / alpha) events into the smaller arm (log(2 / alpha) for two groups), without which
    `treatment_bias` gives no verdict; from a pilot, as many as its own options ask for (``least_events``). A pilot's
    intervals count the rest of each group as it is there: with more rows, all groups grow alike. From rates, groups get
    the rows that let them see their errors alike.

    Examples
    --------
    >>> import isonomy as iso
    >>> iso.bias_sample_size(0.2, baseline=0.1, effect=1.25, groups=4)["rows"].tolist()
    [18586.0, 18586.0, 18586.0, 18586.0]
    >>> sizes = iso.bias_sample_size(0.2, baseline={"DE": 0.1, "FR": 0.05}, effect=1.25)
    >>> dict(zip(sizes["group"], sizes["rows"].tolist(), strict=True))
    {'DE': 19623.0, 'FR': 41698.0}
    """
    if pilot is not None:
        # Half the interval over its quantile: the standard error of the law that was used, which no empty arm makes 0.
        error = (pilot.bias_high - pilot.bias_low) / (2 * float(t_isf(pilot.alpha / 2, np.inf)))
        floor = pilot.events, pilot.least_events, pilot.hypotheses
        return sizes_from_pilot(bias, pilot.labels, pilot.n, pilot.treated, error, *floor, alpha, power)
    return sizes_from_rates(bias, measure, baseline, effect, treated, spread, groups, alpha, power)


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
        models, (control, treated), of which ``predict_proba`` is used where there is one.
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
        Which column, where the model predicts several treatments.

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
    return effects_of(model, X, measure=measure, gives=gives, baseline=baseline, column=column)
