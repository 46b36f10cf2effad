"""The public function: fit, judge on other rows, test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from isonomy.alternatives.decide import decide
from isonomy.alternatives.estimate import estimate
from isonomy.alternatives.mitigate import recommend
from isonomy.alternatives.plan import idle_roles, plan
from isonomy.alternatives.result import ImprovabilityResult
from isonomy.alternatives.rules.utilities import UtilityLike
from isonomy.alternatives.tally import tally
from isonomy.frames import Groups
from isonomy.options import Alpha, Column, Draws, Form, Fraction, Missing, MissingGroup, Names, Number, Seeded, Whole
from isonomy.results import open_call, question


@question(plan, idle=idle_roles)
def improvability(
    data: object = None,
    *,
    outcome: Column,
    groups: Groups,
    status_quo: Column,
    features: Names | None = None,
    candidate: Annotated[str | Sequence[str] | Mapping[str, str] | None, Form("candidates")] = None,
    rule: Annotated[object, Form("rule")] = None,
    group_aware: bool = False,
    capacity: Fraction | None = None,
    threshold: float | None = None,
    accuracy: Annotated[UtilityLike, Form("utility")] = "outcome_among_selected",
    fairness: Annotated[UtilityLike | Sequence[UtilityLike] | None, Form("utilities")] = None,
    accuracy_gain: float | Mapping[str, float] = 0.0,
    fairness_gain: float | Mapping[str, float] = 0.0,
    margin: Annotated[float, Number(least=0)] = 0.0,
    scale: Literal["ratio", "difference"] = "ratio",
    accuracy_weights: Literal["pooled"] | Mapping[str, float] | None = None,
    protected: Annotated[object, Form("group")] = None,
    disadvantage: Literal["lower", "higher"] | None = None,
    fairness_test: Literal["equivalence", "two_one_sided", "paper"] | None = None,
    evidence: Literal["whole", "crossfit", "splits", "paper"] | None = None,
    tried: Sequence[Mapping[str, str | float]] | None = None,
    folds: Annotated[int, Number(least=2, whole=True)] | None = None,
    repeats: Draws | None = None,
    splits: Draws | None = None,
    train_fraction: Fraction | None = None,
    resamples: Draws | None = None,
    alpha: Alpha = 0.05,
    pvalue_form: Literal["add_one", "paper"] = "add_one",
    min_size: Whole = 10,
    n_jobs: Annotated[int, Number(whole=True, unit="-1 for every core")] = 1,
    progress: bool = False,
    rng: Seeded = None,
    count: Column | None = None,
    weight: Column | None = None,
    cluster: Column | None = None,
    missing: Missing = "raise",
    missing_group: MissingGroup = "raise",
) -> ImprovabilityResult:
    """Is there an alternative that is at least as accurate for every group and less unequal?

    Null hypothesis: no algorithm that the rule can find is at least as accurate as the status quo for every group (up
    to the ``margin``, or by more than ``accuracy_gain``) and less unequal between groups (by more than
    ``fairness_gain``).
    Both algorithms are judged on rows that no rule was fitted on, where both select exactly the ``capacity``; the
    p-value is the largest over the components of the null. A rejection shows that a less discriminatory alternative
    exists.

    Parameters
    ----------
    data : table
        Any frame. Where a rule fits features the needed columns are read into memory; a ready ``candidate`` needs
        only grouped counts.
    outcome : str
        The column y: 0/1 for ``accuracy``, ``tpr``, ``tnr``, ``fpr``; any number for the other utilities.
    groups : str or list
        A column, or several (their intersections are the groups).
    status_quo : str
        The algorithm in use: 0/1 decisions, or a score that ``capacity`` or ``threshold`` turns into decisions.
    features : list of str, optional
        The columns a rule may use.
    candidate : str, list or mapping, optional
        In place of a rule: a column of ready decisions or scores, tested on all rows. Several columns, or a mapping
        from names to columns, are adjusted for one another, and the result is a dossier of all of them.
    rule : str, estimator, callable or list, optional
        What finds the candidate: ``"linear"``, ``"lasso"``, ``"random_forest"``, ``"boosting"``,
        ``"group_thresholds"``, ``"milp"``, ``"reductions"``, any scikit-learn estimator, or any callable
        ``rule(training) -> algorithm``. Of a list, the one that does best on a part of the training rows.
    group_aware : bool, default False
        Whether a rule may use the group too.
    capacity : float, optional
        The share of rows selected by the highest scores: exactly that of the rows both are judged on, those tied at the
        cut-off with equal probability.
    threshold : float, optional
        Select scores strictly above it.
    accuracy : str, Utility or mapping, default "outcome_among_selected"
        A name (see `isonomy.alternatives.READY`), a `Utility`, or ``{"utility": ..., "outcome": ...}``.
    fairness : str, Utility, mapping, or list of them, optional
        Utilities that must all become less unequal, or a criterion such as ``"equalized_odds"``. By default the
        accuracy utility.
    accuracy_gain, fairness_gain : float or mapping, default 0
        Required gains: 0.1 asks for accuracy above 1.1 times, unfairness below 0.9 times the status quo's
        (``scale="ratio"``), or for differences in the utility's own unit (``scale="difference"``). Negative gains
        allow a loss. A number, or a mapping by group (by utility for fairness).
    margin : float, default 0
        The loss of accuracy that still counts as "as accurate", stated beforehand: 0.01 is one percent of the status
        quo's (``scale="ratio"``), or one hundredth of the utility's unit. A group whose decisions are all as before
        meets any.
    scale : {"ratio", "difference"}, default "ratio"
        What gains are measured in.
    accuracy_weights : "pooled" or mapping, optional
        ``"pooled"``: one accuracy over all rows. A mapping by group: a weighted sum. By default every group must gain.
    protected : group, optional
        One-sided unfairness: only gaps at the expense of this group count. Its label, its value, or a mapping.
    disadvantage : {"lower", "higher"}, optional
        The protected group is at a disadvantage when its utility is lower than another's, or higher. By default
        whichever is worse for the utility.
    fairness_test : {"equivalence", "two_one_sided", "paper"}, optional
        The candidate's gap must be shown to be smaller on both sides. ``"equivalence"`` (the default) asks both
        together, ``"two_one_sided"`` one by one, which has little power where the gap asked for is within about three
        standard errors of 0 (the default of ``evidence="paper"``). ``"paper"``: the bootstrap of the absolute gap (with
        ``evidence="paper"``), which over-rejects there.
    evidence : {"whole", "crossfit", "splits", "paper"}, optional
        By default ``"crossfit"`` for a rule (every row is decided by rules fitted without it, and one test made of all
        rows), ``"whole"`` for ready candidates (all rows, one test), ``"splits"`` where ``splits`` is given (rounds of
        split, select, test, merged as exchangeable p-values). ``"paper"``: rounds with cut-offs learned from the
        training part, a bootstrap, and twice the median of the p-values.
    tried : list of mappings, optional
        The alternatives tried before this call, such as ``{"what": "a linear rule", "seed": 7, "date": "2025-03-01"}``.
        Each counts as an attempt in the p-value, and stays in the result's log.
    folds, repeats : int, optional
        Of cross-fitting: 5 folds, 3 times.
    splits : int, optional
        Rounds of splitting: 7.
    train_fraction : float, optional
        The share of rows that train in a round: 0.5.
    resamples : int, optional
        Bootstrap resamples per round of the paper's form: 10,000.
    alpha : float, default 0.05
        The error rate.
    pvalue_form : {"add_one", "paper"}, default "add_one"
        Of the bootstrap: (1 + exceeding) / (1 + resamples), which is never 0, or exceeding / resamples.
    min_size : int, default 10
        The fewest rows of a group in the table, or in either part of a split.
    n_jobs : int, default 1
        Processes (the numbers are the same for any); -1 for every core.
    progress : bool, default False
        Show a progress bar.
    rng : int or numpy.random.Generator, optional
        A seed; by default a fresh one is drawn and recorded.
    count : str, optional
        A column with the number of equal, independent rows each line stands for.
    weight : str, optional
        A column with the people each row stands for, such as a survey's weights. Only their proportions matter; the
        capacity is a share of the people.
    cluster : str, optional
        A column that says which rows belong together: a person, a household, a branch. Folds and splits keep clusters
        whole, and the error is measured between them; every group needs 10 effective ones.
    missing : {"raise", "drop"}, default "raise"
        What to do with rows that lack a needed value.
    missing_group : {"raise", "level", "drop"}, default "raise"
        What to do with rows that lack a group.

    Returns
    -------
    ImprovabilityResult
        Every trial with its gains and their limits, the p-value of all, the verdict, and the gains supported.

    Notes
    -----
    When it misleads: when rows are not independent, when the decision changes the outcome, and when rules are tried
    until one rejects and are not named in ``tried``. Cross-fitting rests on rules that change little when a row does. A
    result that does not reject says little: another rule might find an alternative.

    References
    ----------
    Auerbach, E., Liang, A., Okumura, K. and Tabord-Meehan, M. (2025), Testing the Fairness-Accuracy Improvability of
    Algorithms: definition 2, section 3, corollary 1. Gasparin, M., Wang, R. and Ramdas, A. (2025), Combining
    exchangeable p-values.

    Examples
    --------
    >>> import numpy as np
    >>> import isonomy as iso
    >>> rng = np.random.default_rng(1)
    >>> group, need = rng.integers(0, 2, 8000), rng.poisson(2, 8000)
    >>> data = {"group": group, "need": need, "cost_score": need + 2.0 * group + rng.normal(0, 2, 8000),
    ...         "need_score": need + rng.normal(0, 0.5, 8000)}
    >>> result = iso.improvability(data, outcome="need", groups="group", status_quo="cost_score",
    ...     candidate="need_score", capacity=0.1, rng=1)
    >>> result.reject, result.pvalue < 0.05
    (True, True)
    """
    call = open_call("improvability", locals())
    asked = plan(call.source, **call.options)
    sums = tally(call.source, asked)
    estimates = estimate(sums, asked, call.rng)
    decisions = decide(estimates, asked)
    recommended = recommend(sums, asked, estimates, decisions, call.rng.spawn(1)[0])
    return ImprovabilityResult.of(call, asked, sums, estimates, decisions, recommended)
