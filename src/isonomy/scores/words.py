"""Every sentence about scores. A sentence is a function of the evidence and the line it is about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from isonomy.inference import Verdict, multiplicity, overall
from isonomy.results import Note, Status, phrases, register

if TYPE_CHECKING:
    from isonomy.numerics.arrays import FloatArray, IntArray
    from isonomy.scores.composites import BetterWeights, CompositeResult
    from isonomy.scores.margins import MarginalResult
    from isonomy.scores.pairs import OutcomeEvidence, PairEvidence, Reversal
    from isonomy.scores.parity import ParityResult
    from isonomy.scores.thresholds import ThresholdsResult

REFERENCES = (
    'C. DiCiccio, B. Hsu, Y. Yu, P. Nandy, K. Basu, "Detection and Mitigation of Algorithmic Bias via Predictive Rate '
    'Parity".',
    'M. Tygert, "Calibration of P-values for calibration and for deviation of a subpopulation from the full '
    'population", 2022.',
    'J. L. Montiel Olea, M. Plagborg-Moller, "Simultaneous confidence bands", Journal of Applied Econometrics, 2019.',
    'S. Calonico, M. D. Cattaneo, M. H. Farrell, "On the effect of bias estimation on coverage accuracy in '
    'nonparametric inference", Journal of the American Statistical Association, 2018.',
)

# ---- pairs of groups

DIRECT_DIFFERENCE = (
    "The difference is not exactly the estimate minus the reference. It is estimated in one step, from outcomes "
    "relative to the curve that both groups share, which removes the bias that each estimate has where this curve is "
    "steep."
)
SMOOTH = (
    "Expected outcomes change little within one bandwidth.",
    "Not checked here. Results at half and at twice the bandwidth would show whether it holds.",
)
_CLUSTERED = (
    "Users are independent of one another.",
    "This cannot be checked from the table; it follows from how the rows were collected.",
)
_UNCLUSTERED = (
    "Rows are independent of one another.",
    "This cannot be checked without a column that identifies people. If people appear more than once, name that "
    "column as the user.",
)


def independent(clustered: bool, rows: tuple[str, str]) -> tuple[str, str]:
    """The assumption about independence. ``clustered``: users are known; ``rows``: the assumption if they are not."""
    return _CLUSTERED if clustered else _UNCLUSTERED if rows == phrases.INDEPENDENT else rows


def sentence(text: str, **formats: Callable[[float], str]) -> Callable[[Note], str]:
    def write(note: Note) -> str:
        numbers = {name: form(note.values[name]) for name, form in formats.items()}
        return text.format(**{**note.values, **numbers, "groups": phrases.listed(note.groups)})

    return write


def outcome(value: float, binary: bool) -> str:
    return phrases.share(value) if binary else phrases.number(value)


def _same(tolerance: float | None, binary: bool) -> str:
    if tolerance is None:
        return "is the same in all groups"
    return f"differs by at most {_size(tolerance, binary)} between groups"


def _size(difference: float, binary: bool) -> str:
    """A difference of outcomes without its sign: of shares in points (``binary``), of other numbers as it is."""
    return phrases.points(difference) if binary else phrases.number(abs(difference))


def _shown(r: PairEvidence, i: int) -> str:
    """What was shown about a pair of groups: 'no difference larger than the tolerance of 5.0 points was shown'."""
    tolerance = r.provenance.options.get("tolerance")
    larger = "" if tolerance is None else f" larger than the tolerance of {_size(tolerance, r.binary)}"
    if r.verdicts[i] is Verdict.WITHIN_TOLERANCE:
        return f"any difference was shown to be within the tolerance of {_size(tolerance or 0.0, r.binary)}"
    return f"{'a' if r.verdicts[i] is Verdict.VIOLATION else 'no'} difference{larger} was shown"


def _compared(r: OutcomeEvidence, i: int, kind: str = "") -> str:
    """'12.0 points lower than that of b (95 % interval 4.0 to 20.0)'; intervals of other numbers have a sign."""
    difference, ends = r.disparity[i], (r.ci_low[i], r.ci_high[i])
    if r.binary:
        size, interval = phrases.apart(difference, ends, r.alpha, kind).split(", ", 1)
    else:
        size = f"{phrases.number(abs(difference))} {'lower' if difference < 0 else 'higher'}"
        interval = f"{kind}{phrases.interval(*ends, r.alpha)} of the difference"
    return f"{size} than that of {r.against[i]} ({interval})"


# ---- predictive parity

MEANING_STEPS = {
    "violation": (
        "Ask whether decisions use the score with one cut-off for all groups. The same cut-off then means different "
        "things in different groups.",
        "Consider calibrating the score by group, where that is permitted, and repeat the test on new rows.",
    )
}
PARITY_METHOD = "Predictive rate parity: comparison of outcomes at equal scores between groups, with sums by user"
REVERSED = "one group has higher outcomes at lower scores than another group has at higher scores"
NORMAL = (
    "Sums over users are approximately normal at each score compared.",
    "Checked at each score: both groups are expected to have at least 10 people with the outcome and 10 without it, "
    "among those with scores within about one bandwidth.",
)
PUBLISHED_NORMAL = (
    NORMAL[0],
    "Not checked: the published procedure compares groups at every score with some people near it, however few.",
)
PARITY_PAGES = {
    "Pairs of groups": "table group against n reference_n pair_pvalue pair_adjusted_pvalue verdict",
    "Differences by score": "table group against score estimate reference disparity ci_low ci_high pvalue "
    "adjusted_pvalue effective_n reference_effective_n status",
}
ORDER_NOT_TESTED = "The order of scores was not tested."
NOWHERE = "No single score has enough people near it in two groups, so the groups are not compared at single scores."
# The number of these people would reveal something about groups that are withheld.
_SPANNING = "Some people or clusters belong to more than one group"
_ACCOUNTED = "all standard errors account for this."

register(
    {
        "outside_unit": "Some scores are below 0 or above 1. The bandwidth rule was scaled to their range, and the "
        "scores cannot be read as probabilities.",
        "published_parity": "The published (Nadaraya-Watson) test rejects too often when groups have different scores, "
        "even if the score means the same for all groups. The default omnibus test does not.",
        "single_score": "Nearly all scores are equal in the table {table}, so the test compares mean outcomes.",
        "single_point": "Groups were compared at a single score in the table {table}. The verdict says nothing about "
        "other scores.",
        "grid_outside": "{outside:,} of the {points:,} scores of the grid lie outside the range of the scores in the "
        "table {table}, where no group has rows.",
        "spanning": _SPANNING + " of the table {table}; " + _ACCOUNTED,
        "scores_not_compared": "{lost:,} of {comparisons:,} comparisons at a score were not made in the table {table}: "
        "near the score, each group needs at least 10 people with the outcome and 10 without it (30 people if outcomes "
        "are not 0 and 1) whose scores occur in both groups.",
        "skewed_scores": "The outcomes are too skewed for the number of people near the score in {skewed:,} of "
        "{comparisons:,} comparisons in the table {table}. These differences were estimated but not tested: in groups "
        "of unequal size, the smaller group needs about 300 times the squared skewness in effective people.",
        "scores_without_users": "{lost:,} of {comparisons:,} comparisons at a score were not made in the table "
        "{table}, because a group has almost nobody near the score.",
    }
)


def parity_limits(*, published: bool) -> tuple[str, ...]:
    """What the test does not show. ``published``: the paper's procedure, which requires few people near a score."""
    few = "almost nobody" if published else "few people"
    return (
        phrases.NOT_PROOF,
        f"Scores near which a group has {few} were not compared. Differences at these scores are unknown.",
        "A difference over a range of scores narrower than the bandwidth may be missed, because estimates average over "
        "the bandwidth.",
        "Equal outcomes at each score say nothing about who receives which score, or about errors in the recorded "
        "outcome.",
    )


def parity_null(
    level: str, tolerance: float | None, ends: tuple[float, float] | None, *, order: bool, binary: bool
) -> str:
    votes = "user" if level == "user" else "row"
    where = "every score"
    if ends is not None:
        low, high = (phrases.number(end) for end in ends)
        where = f"the score {low}" if ends[0] == ends[1] else f"every score from {low} to {high}"
    reversal = "" if not order else ", and no group has higher outcomes at lower scores than another at higher scores"
    return f"At {where}, the expected outcome {_same(tolerance, binary)}{reversal}. Each {votes} counts once."


def with_order(headline: str, *, differ: bool) -> str:
    """The headline if the order of scores was shown to be reversed; ``differ``: outcomes at equal scores differ too."""
    badge, _, sentence = headline.partition(": ")
    return f"{badge}: {sentence.removesuffix('.')}, and {REVERSED}." if differ else f"{badge}: {REVERSED}."


def scores_not_compared(table: str, *, ordered: bool) -> str:
    tested = "; only the order of scores was tested" if ordered else ""
    return f"By {table}, no score has enough people near it in two groups to compare them{tested}."


def parity_table(r: ParityResult, lines: IntArray, known: IntArray) -> str:
    """The test of one table, by its ``lines``; at those that are ``known``, groups were compared at a score."""
    compared = known if known.size else lines
    groups = len({group for i in compared for group in (r.groups[i], r.opposite[i])})
    scores, tables = len(set(r.score[known])), len(set(r.tables))
    where = f"at {scores} {'score' if scores == 1 else 'scores'}" if scores else "over all scores together"
    outcomes = f"By {r.tables[lines[0]]}, expected outcomes at the same score"
    tolerance = "" if r.tolerance is None else _size(r.tolerance, r.binary)
    verdict = overall([r.verdicts[i] for i in lines])
    if verdict is Verdict.WITHIN_TOLERANCE:
        shown = f"were shown to differ between groups by at most {tolerance}, at every score compared"
        return f"{outcomes} {shown} ({groups} groups compared {where})."
    shown = "were shown" if verdict is Verdict.VIOLATION else "were not shown"
    beyond = f" by more than {tolerance}" if tolerance else ""
    adjusted = f", adjusted for {tables} tables" if tables > 1 else ""
    pvalue = phrases.pvalue(multiplicity.smallest(r.pair_adjusted_pvalue[lines]))
    return (
        f"{outcomes} {shown} to differ between groups{beyond} ({pvalue}{adjusted}; {groups} groups compared {where})."
    )


def parity_pair(r: ParityResult, i: int) -> str:
    """What was shown about two groups, and the largest difference shown (or estimated, if none was): line ``i``."""
    first, second = r.labels[i], r.against[i]
    differs, apart = r.verdicts[i] is Verdict.VIOLATION, r.ci_low[i] > 0 or r.ci_high[i] < 0
    exact = r.provenance.options.get("tolerance") is None
    shown = differs and r.adjusted_pvalue[i] <= r.alpha
    largest = "largest difference shown is" if shown else "largest difference is estimated"
    end = ""
    if differs and not apart:
        largest, end = "largest estimated difference is", "; the interval there includes 0"
    elif apart and exact and not differs:
        end = "; the test of all scores together decides, not this interval"
    return (
        f"{first} against {second}: {_shown(r, i)} ({phrases.pvalue(r.pair_adjusted_pvalue[i])}, "
        f"adjusted for all pairs compared). The {largest} at a score of {phrases.number(r.score[i])}, "
        f"where the expected outcome of {first} is {_compared(r, i, 'simultaneous ')}{end}."
    )


def order(test: Reversal, *, binary: bool) -> str:
    if test.verdict is Verdict.WITHIN_TOLERANCE:
        return (
            "It was shown that no group's outcomes at lower scores exceed another group's outcomes at higher scores by "
            "more than the tolerance."
        )
    if test.pvalue != test.pvalue:
        return "The order of scores could not be tested."
    if not test.better or test.verdict is not Verdict.VIOLATION:
        return (
            "No group was shown to have higher outcomes at lower scores than another group at higher scores "
            f"({phrases.pvalue(test.pvalue)})."
        )
    return (
        f"The order of scores is reversed ({phrases.pvalue(test.pvalue)}): at scores around "
        f"{phrases.number(test.score)}, the mean outcome of {test.better} is {_size(test.difference, binary)} higher "
        f"than that of {test.worse} at scores around {phrases.number(test.higher_score)}."
    )


# ---- composite parity

COMPOSITE_METHOD = "Parity of composite scores, uniformly over their weights, with sums by user"


def composite_null(tolerance: float | None, *, given: bool, order: bool) -> str:
    which = "With the weights given, and" if given else "For all weights, and"
    reversal = ", and no group has higher outcomes at lower scores than another at higher scores" if order else ""
    return f"{which} at every composite score, the expected composite outcome {_same(tolerance, False)}{reversal}."


def jointly_calibrated(r: CompositeResult) -> str:
    failed = [line for line in r.joint if line.verdict is Verdict.VIOLATION]
    known = [line.pvalue for line in r.joint if line.pvalue == line.pvalue]
    if not known:
        return (
            "There are too few people, or their outcomes are too skewed, to test whether each score is calibrated "
            "given all the scores."
        )
    pvalue = f"({phrases.pvalue(min(known))}, adjusted for the number of scores)"
    if not failed:
        return (
            "No score was shown to differ from the expected outcome of people with the same values of all the scores "
            f"{pvalue}. If none does, every weighted sum of the scores is calibrated."
        )
    names = phrases.listed([line.score for line in failed])
    return (
        f"Among people with the same values of all the scores, the expected outcome differs from the score: {names} "
        f"{pvalue}. A weighted sum of the scores then need not be calibrated, even if each score is by itself."
    )


def better_weights(r: CompositeResult, better: BetterWeights) -> str:
    weights = phrases.listed(
        [f"{phrases.number(w)} for {name}" for name, w in zip(r.scores, better.weights, strict=True)]
    )
    shown = "were shown to" if better.pvalue <= r.alpha else "were not shown to"
    return (
        f"Other weights {shown} predict the composite outcome better ({phrases.pvalue(better.pvalue)}). The best are "
        f"{weights}. The mean squared error is {phrases.number(better.better_error)} instead of "
        f"{phrases.number(better.error)}, on the rows from which these weights were estimated."
    )


def composite_pair(r: CompositeResult, i: int) -> str:
    weights = zip(r.scores, r.weights[:, i], strict=True)
    named = phrases.listed([f"{phrases.number(weight)} for {name}" for name, weight in weights])
    some = "at least one choice of" if r.verdicts[i] is Verdict.VIOLATION else "any choice of"
    which = "the given" if r.better is not None else some
    return (
        f"{r.labels[i]} against {r.against[i]}: {_shown(r, i)} for {which} weights "
        f"({phrases.pvalue(r.adjusted_pvalue[i])}, adjusted for all weights and pairs). The difference is clearest "
        f"with weights of {named}, where the expected composite outcomes differ by {phrases.signed(r.disparity[i])}."
    )


# ---- marginal outcomes

MARGINAL_METHOD = "Marginal outcomes at the threshold, by one-sided local regression with sums by user"
MARGINAL_LIMITS = (
    phrases.NOT_PROOF,
    "Only outcomes at the threshold are compared. Outcomes well above it may differ in either direction.",
    "Outcomes below the threshold were not used and are not known here.",
    "Equal outcomes at the margin say nothing about who receives which score, or about errors in the recorded outcome.",
)
MARGINAL_ASSUMPTIONS = (
    (
        "The decision is positive exactly when the score reaches the threshold.",
        "Not checked here: decisions are not read.",
    ),
    ("Expected outcomes are smooth just above the threshold.", SMOOTH[1]),
)
MARGINAL_PAGES = {
    "Differences at the threshold": "table group against disparity ci_low ci_high pvalue adjusted_pvalue verdict "
    "status",
    "Outcomes at the threshold": "table group n estimate estimate_low estimate_high against reference_n reference "
    "reference_low reference_high",
}


register(
    {
        "published_margin": "The published (Nadaraya-Watson) estimate is biased at the edge of the data, where the "
        "threshold is, and the bias differs between groups with different outcomes above it. The default, local "
        "quadratic regression, does not have this bias.",
        "nobody_above": "No row of {groups} has a score at or above the threshold, so the outcomes there are unknown.",
        "few_at_threshold": sentence(
            "Too few people are just above the threshold to estimate the outcome of {groups}: at least 10 with the "
            "outcome and 10 without it are needed within {width} of the threshold, and some of them must be close to "
            "it. If there are few distinct scores, use one of them as the threshold.",
            width=phrases.number,
        ),
        "skewed_at_threshold": "The outcomes are too skewed for the number of people just above the threshold in "
        "{groups}. Differences between them were estimated but not tested: in groups of unequal size, the smaller "
        "group needs about 300 times the squared skewness in effective people.",
        "spanning_above": f"{_SPANNING}; {_ACCOUNTED}",
    }
)


def marginal_null(threshold: float | Mapping[str, float], tolerance: float | None, *, binary: bool) -> str:
    same, whose = _same(tolerance, binary), "their group's" if isinstance(threshold, Mapping) else "the"
    return f"The expected outcome of people whose score equals {whose} threshold, {in_force(threshold)}, {same}."


def margins_not_compared(table: str) -> str:
    return f"By {table}, no two groups have enough people just above the threshold to compare them."


def marginal_pair(r: MarginalResult, i: int) -> str:
    first, second = r.labels[i], r.against[i]
    shown, kind = _shown(r, i), "unadjusted " if len(r.groups) > 1 else ""
    standard = f" {shown[0].upper()}{shown[1:]}."
    if r.verdicts[i] is Verdict.VIOLATION:
        higher = first if r.disparity[i] > 0 else second
        standard = (
            f" The outcome at the margin is higher for {higher}: if higher outcomes are better, this group is held to "
            "a higher standard."
        )
    return (
        f"{first} against {second}: at the threshold, the expected outcome of {first} is {_compared(r, i, kind)}; "
        f"{phrases.pvalue(r.adjusted_pvalue[i])}, adjusted for all pairs compared.{standard}"
    )


def marginal_group(r: MarginalResult, label: str, numbers: Mapping[str, FloatArray]) -> str:
    estimate, low, high = (float(numbers[f"estimate{end}"][0]) for end in ("", "_low", "_high"))
    ends = " to ".join(phrases.ends(low, high, shares=r.binary)) + (" %" if r.binary else "")
    return (
        f"{label}: the expected outcome at the threshold is {outcome(estimate, r.binary)} ({100 * (1 - r.alpha):g} % "
        f"interval {ends}; {phrases.count(numbers['n'][0])} rows at or above the threshold)."
    )


# ---- measures of calibration


def _no_row_near(note: Note) -> str:
    lost, points = note.values["lost"], note.values["points"]
    groups = phrases.listed([f"{label} ({lost[label]} of {points})" for label in note.groups])
    return (
        f"{note.values['score']}: there is no row near some scores of the grid in {groups}, so the calibration and "
        "parity errors are not known. Use a grid of scores that occur in every group."
    )


register(
    {
        "no_row_near": _no_row_near,
        "auc_not_binary": "{score}: AUC is defined only for outcomes of 0 and 1.",
        "auc_one_outcome": "{score}: AUC needs both outcomes; only one occurs in {groups}.",
    }
)

# ---- thresholds

HARDT = 'M. Hardt, E. Price, N. Srebro, "Equality of opportunity in supervised learning", NeurIPS, 2016.'
THRESHOLDS_METHOD = "Group thresholds that keep the number of people selected"
TARGETS = {
    "outcome_at_margin": "outcome at the margin",
    "selection_rate": "selection rate",
    "tpr": "true positive rate",
    "fpr": "false positive rate",
    "equalized_odds": "mean of the true and the false positive rate",
    "predictive_value": "share of positives among those selected",
}
THRESHOLDS_LIMITS = (
    "Thresholds are estimated: on new rows the groups will agree only up to the error of the estimates. Intervals do "
    "not account for the choice of the groups whose threshold was moved.",
    "Making one rate equal makes others unequal, unless groups have equal outcomes at every score.",
    "Separate thresholds for groups use the group in the decision, which the law may forbid. Calibrating the score by "
    "group and using one threshold uses the group just as much.",
)
THRESHOLDS_ASSUMPTIONS = (
    (
        "New rows are like these: the same scores and outcomes in each group.",
        "Cannot be checked from the table; compare the rates again once the thresholds are in use.",
    ),
)
MARGIN_ASSUMPTIONS = (
    (
        "Expected outcomes rise with the score.",
        "Not tested here: curves were made nondecreasing. The test of predictive parity shows the curves as estimated.",
    ),
    (
        "Below the present threshold, expected outcomes continue along a straight line.",
        "Cannot be checked without outcomes there.",
    ),
)
EXTRAPOLATED = (
    "A threshold below the present one rests on outcomes extrapolated from those above it. It is a suggestion to be "
    "tried, not a measurement."
)


def _needed(name: str, margin: bool) -> str:
    """The rows that each group needs. ``margin``: for outcomes at the margin."""
    if margin:
        return "at least 10 people with the outcome and 10 without are needed just above the threshold"
    least = f"at least 10 of the rows behind the {name} must be expected to count toward it, and 10 not"
    return f"at the rate of all groups, {least}"


def _still_differ(note: Note) -> str:
    lowest, highest = note.groups
    low, high = (outcome(note.values[end], note.values["share"]) for end in ("low", "high"))
    odds = " One threshold per group cannot make both rates equal; a lottery near the threshold can."
    return (
        f"After the change, groups still differ in the {note.values['name']} by more than its standard error: "
        f"{low} in {lowest}, {high} in {highest}.{odds if note.values['odds'] else ''}"
    )


register(
    {
        "outcome_left_out": sentence(
            "{rows} rows without an outcome were left out. Every number here, including who is selected, covers only "
            "people whose outcome is known. If outcomes are known mostly for people who were selected, these people do "
            "not represent everybody; equal outcomes at the margin need only the outcomes of the selected.",
            rows=phrases.count,
        ),
        "outcome_of_some": sentence(
            "The outcome is known for {share} of everybody. Shares selected count everybody; outcomes at the margin "
            "count only people whose outcome is known. Outcomes below the present threshold are extrapolated from "
            "those above it, and the effect of the thresholds on accuracy is not known.",
            share=phrases.share,
        ),
        "threshold_stays": lambda note: (
            f"There are too few rows of {phrases.listed(note.groups)} to estimate the {note.values['name']}, so the "
            f"threshold does not change there: {_needed(note.values['name'], note.values['margin'])}."
        ),
        "one_way": sentence(
            "Thresholds move in one direction only: the overall {rate} changes from {before} to {after} instead of "
            "being kept.",
            before=phrases.share,
            after=phrases.share,
        ),
        "rate_not_kept": sentence(
            "The overall {rate} could not be kept: the target is {before}, and {after} is reached. The reason is that "
            "many scores at a threshold are equal, or that curves are too flat.",
            before=phrases.share,
            after=phrases.share,
        ),
        "outcomes_fall": "Outcomes fall as the score rises in {groups}. Thresholds cannot make outcomes at the margin "
        "equal there; correct the score first.",
        "nobody_at_threshold": "Nobody would be selected at the new threshold of {groups}.",
        "everybody_at_threshold": "Everybody would be selected at the new threshold of {groups}.",
        "still_differ": _still_differ,
    }
)


def target_words(labels: Mapping[str, str]) -> dict[str, str]:
    """What every metric is called in a sentence: the readers' words if there are ``labels``, else ours."""
    given = {name: labels.get(name) or labels.get("ppv" if name == "predictive_value" else "") for name in TARGETS}
    return {name: phrases.noun(label) if label else TARGETS[name] for name, label in given.items()}


def threshold_meaning(options: Mapping[str, object]) -> str:
    score, threshold = options.get("score"), options.get("threshold")
    if not isinstance(score, str) or not isinstance(threshold, (int, float, Mapping)):
        return ""
    return f"Here, selected means that {score} is at or above the threshold, at present {in_force(threshold)}."


def in_force(threshold: float | Mapping[str, float]) -> str:
    """'0.500', or '0.380 for a and 0.620 for b'."""
    if not isinstance(threshold, Mapping):
        return phrases.number(threshold)
    return phrases.listed([f"{phrases.number(value)} for {group}" for group, value in threshold.items()])


def thresholds_null(target: str, threshold: float | Mapping[str, float], names: Mapping[str, str]) -> str:
    metrics = [names[name] for name in (("tpr", "fpr") if target == "equalized_odds" else (target,))]
    many = "are the same" if len(metrics) > 1 else "is the same"
    present = "thresholds" if isinstance(threshold, Mapping) else "threshold"
    return f"At the present {present}, {in_force(threshold)}, the {' and the '.join(metrics)} {many} in all groups."


def thresholds_headline(r: ThresholdsResult) -> str:
    if r.verdict is Verdict.VIOLATION:
        shown = "Difference shown: groups differ at the present threshold."
        if Status.INFEASIBLE in r.status or any(note.code == "still_differ" for note in r.notes):
            return f"{shown} The new thresholds do not make all of them agree; see the warnings and the table."
        return f"{shown} With the new thresholds they would agree, except for differences that chance may explain."
    if r.change == "all" and r.moved:
        return (
            "Inconclusive: groups were not shown to differ at the present threshold. Thresholds were moved anyway, as "
            "requested, and may make equal groups unequal."
        )
    return "Inconclusive: groups were not shown to differ at the present threshold, and they keep a common one."


def too_few(target: str, threshold: float | Mapping[str, float], names: Mapping[str, str]) -> str:
    name = names[target]
    return (
        f"threshold: fewer than two groups have enough rows to estimate the {name} at {in_force(threshold)}, and "
        f"thresholds are set by comparing groups. In each, {_needed(name, target == 'outcome_at_margin')}: combine "
        "small groups, or give another threshold."
    )


def common_target(r: ThresholdsResult) -> str:
    before, after = (phrases.share(share) for share in (r.overall_before, r.overall_after))
    chosen = f"{r.chosen[:1].upper()}{r.chosen[1:]}"
    if not r.moved:
        return f"Every group keeps the present threshold. {chosen} overall: {before}."
    name = r.words[r.metric]
    missed = ", which not every group reaches" if Status.INFEASIBLE in r.status else ""
    return (
        f"The new thresholds aim at the same {name} in every group, {_level(r, r.metric, r.target)}{missed}. {chosen} "
        f"overall: {before} before the change, {after} after it."
    )


def shared_threshold(blocks: Sequence[Sequence[str]], *, moves: bool) -> str:
    share = "move by the same amount" if moves else "share a threshold"
    return f"These groups were not shown to differ and {share}: {'; '.join(map(phrases.listed, blocks))}."


def threshold_finding(r: ThresholdsResult, i: int) -> str:
    if r.status[i] is Status.UNSUPPORTED:
        return f"{r.labels[i]}: the threshold stays; there are too few rows to estimate the effect of another."
    caution = {
        Status.EXTRAPOLATED: " (extrapolated below the present threshold)",
        Status.INFEASIBLE: " (infeasible: the common value cannot be reached)",
    }.get(r.status[i], "")
    ends = [(name, r.before[k, i], r.after[k, i]) for k, name in enumerate(r.metrics)]
    if "selection_rate" not in r.metrics:
        ends.append(("selection_rate", r.rate_before[i], r.rate_after[i]))
    stays, old, new = r.present[i] == r.thresholds[i], phrases.number(r.present[i]), phrases.number(r.thresholds[i])
    interval = phrases.interval(r.thresholds_low[i], r.thresholds_high[i], r.alpha)
    moved = f"stays at {old}" if stays else f"moves from {old} to {new} ({interval})"
    changes = []
    for name, before, after in ends:
        old, new = _level(r, name, before), _level(r, name, after)
        same = old if stays else f"unchanged at {old}"
        changes.append(f"the {r.words[name]} {f'is {same}' if old == new else f'goes from {old} to {new}'}")
    if r.lottery[i] < r.thresholds[i]:
        least, chance = phrases.number(r.lottery[i]), phrases.number(r.probability[i])
        if least == phrases.number(r.thresholds[i]):  # between equal scores
            moved += f": everybody above {least} is {r.chosen}, and of those at {least} a share of {chance}, by lottery"
        else:
            moved += f", by lottery from {least} up (chance {chance})"
    return f"{r.labels[i]}: the threshold {moved}{caution}; {'; '.join(changes)}."


def selected_finding(r: ThresholdsResult, i: int) -> str:
    low, high = r.selected_change_low[i], r.selected_change_high[i]
    ends = [phrases.count(abs(end)) for end in (low, high)]
    if low * high < 0:
        ends = [f"{ends[0]} fewer", f"{ends[1]} more"]
    elif high <= 0:
        ends.reverse()
    change, interval = r.selected_change[i], f"{100 * (1 - r.alpha):g} % interval {' to '.join(ends)}"
    return f"{r.labels[i]}: {phrases.count(abs(change))} {'more' if change >= 0 else 'fewer'} {r.chosen} ({interval})."


def accuracy_finding(r: ThresholdsResult) -> str:
    before, after = r.accuracy_before, r.accuracy_after
    change = phrases.apart(after - before, (r.accuracy_change_low, r.accuracy_change_high), r.alpha)
    return f"Accuracy is {phrases.share(before)} before the change and {phrases.share(after)} after it: {change}."


def _level(r: ThresholdsResult, name: str, value: float) -> str:
    """A metric's value: all but an outcome, which may be any number, are shares of people."""
    return outcome(value, r.binary or name != "outcome_at_margin")


# ---- estimators


UNSEEN = {
    "pooled": "Groups that were not seen in fit get the calibrator of everybody together: {}.",
    "present": "Groups that were not seen in fit are decided by the present threshold: {}.",
    "error": 'groups: {} were not seen in fit; refit with them, or use unknown="present".',
    "no threshold": "groups: {} were not seen in fit and have no threshold; refit with them.",
}


def unseen_groups(keys: Sequence[tuple[object, ...]], treatment: str) -> str:
    return UNSEEN[treatment].format(phrases.listed([", ".join(str(value) for value in key) for key in keys]))
