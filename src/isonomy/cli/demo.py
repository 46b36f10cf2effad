"""The demo: a simulated lender, an audit file with the truth in it, and nothing else that a real audit has not."""

from __future__ import annotations

from pathlib import Path

from isonomy.audit.guess import toml
from isonomy.audit.state import prepare, write

_HEAD = """\
# The audit of a simulated lender. Its bias was planted, so that the truth is known: the report shows it beside
# each finding. Run it again with: isonomy audit audit.toml

title = "A simulated lender"
description = "{rows:,} loan applications. Bias was planted in known places; elsewhere everybody is treated alike."
seed = {seed}
fail_on = []
output = "."
suppress_below = 10

[data]
path = "lender.parquet"

[columns]
outcome = "repaid"
prediction = "approved"
score = "score"
user = "user"
groups = ["race", "sex"]
"""

# Question of the simulation's truth, then the test.
_TESTS: tuple[tuple[str, str], ...] = (
    (
        "flag",
        """\
kind = "flag"
id = "approval of those who repay"
title = "Are people who would repay approved equally often, whatever their race and sex?"
metric = "tpr"
depth = 2
tolerance = 0.02
""",
    ),
    (
        "age",
        """\
kind = "certify"
id = "approval by age"
title = "Are people who would repay approved equally often at every age?"
metric = "tpr"
groups = ["age_band"]
tolerance = 0.05
""",
    ),
    (
        "project",
        """\
kind = "project"
id = "least change"
title = "How few decisions would have to change for the races to be approved alike?"
criterion = "equal_opportunity"
groups = ["race"]
reference = {race = "White"}
threshold = 0.7
""",
    ),
    (
        "improvability",
        """\
kind = "improvability"
id = "an alternative score"
title = "Is there a score that selects better in every race and is less unequal?"
groups = ["race"]
status_quo = "approved"
candidate = "candidate_approved"
fairness = "tpr"
""",
    ),
    (
        "treatment_bias",
        """\
kind = "treatment_bias"
id = "effect of the offer"
title = "Does the uplift model promise some ages too much?"
effect = "predicted_effect"
treatment = "offer"
outcome = "accepted"
groups = ["age_band"]
""",
    ),
    (
        "offer by race",
        """\
kind = "treatment_bias"
id = "effect of the offer by race"
title = "Does the uplift model promise some races too much?"
effect = "predicted_effect"
treatment = "offer"
outcome = "accepted"
groups = ["race"]
""",
    ),
    (
        "predictive_parity",
        """\
kind = "predictive_parity"
id = "meaning of the score"
title = "Does the same score mean the same chance of repayment in every race?"
groups = ["race"]
reference = {race = "White"}
""",
    ),
    (
        "marginal",
        """\
kind = "marginal_outcomes"
id = "just above the threshold"
title = "Do those who were only just approved repay equally often in every race?"
groups = ["race"]
threshold = 0.7
""",
    ),
)


def write_demo(folder: Path, rows: int, seed: int) -> Path:
    """Write the simulated table and its audit file; returns the file's path."""
    from isonomy import simulate

    prepare(folder)
    lender = simulate.lender(rows, seed=seed)
    lender.write(folder / "lender.parquet")
    file = folder / "audit.toml"
    write(file, _HEAD.format(rows=rows, seed=seed) + "".join(_test(name, text, lender.truth) for name, text in _TESTS))
    return file


def _test(name: str, text: str, truth: dict[str, object]) -> str:
    facts = _facts(name, truth)
    lines = "".join(f"  {toml(fact)},\n" for fact in facts)
    return f"\n[[tests]]\n{text}truth = [\n{lines}]\n"


def _facts(name: str, truth: dict[str, object]) -> tuple[str, ...]:
    truths: dict[str, tuple[str, ...]] = truth["facts"]  # type: ignore[assignment]
    if name == "age":
        return ("Age has no part in approval or repayment: people who would repay are approved alike at every age.",)
    if name == "offer by race":
        return ("The model's error is the same in every race: relative to one another, no race is promised too much.",)
    if name == "marginal":
        return truths["predictive_parity"][:1]
    return truths[name]
