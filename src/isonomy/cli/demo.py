"""The demo: a simulated lender, an audit file with the truth in it, and nothing else that a real audit has not."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from string import Template

from isonomy.audit.guess import toml
from isonomy.audit.state import prepare, write

# $-names stand for what is true in the simulation.
_AUDIT = """\
# The audit of a simulated lender. Its bias was planted, so that the truth is known: the report shows it beside
# each finding. Run it again with: isonomy audit audit.toml

title = "A simulated lender"
description = "$rows loan applications. Bias was planted in known places; elsewhere everybody is treated alike."
seed = $seed
fail_on = []
output = "."
suppress_below = 10

[data]
path = "lender.parquet"
cluster = "user"

[columns]
outcome = "repaid"
prediction = "approved"
score = "score"
user = "user"
groups = ["race", "sex"]

[labels]  # what readers call the table's codes, its people and its metrics
population = "all applicants"
metrics = {tpr = "approval rate of those who repay"}
values.race = {$races}
values.sex = {Female = "Women", Male = "Men"}
values.age_band = {"21-29" = "Ages 21 to 29", "30-59" = "Ages 30 to 59", "60-79" = "Ages 60 to 79"}

[labels.groups]
$pairs

[[tests]]
kind = "flag"
id = "approval of those who repay"
title = "Are people who would repay approved equally often, whatever their race and sex?"
metric = "tpr"
depth = 2
tolerance = 0.02
truth = $flag

[[tests]]
kind = "adverse_impact"
id = "impact ratios"
title = "Of those who would repay, is every race approved at four fifths of the best-off race's rate or more?"
groups = ["race"]
filters = [{column = "repaid", value = 1}]
truth = $impact

[[tests]]
kind = "certify"
id = "approval by age"
title = "Are people who would repay approved equally often at every age?"
metric = "tpr"
groups = ["age_band"]
tolerance = 0.05
truth = $age

[[tests]]
kind = "project"
id = "least change"
title = "How few decisions would have to change for the races to be approved alike?"
criterion = "equal_opportunity"
groups = ["race"]
reference = {race = "White"}
threshold = 0.7
truth = $project

[[tests]]
kind = "improvability"
id = "an alternative score"
title = "Is there a score that selects better in every race and is less unequal?"
groups = ["race"]
status_quo = "approved"
candidate = "candidate_approved"
fairness = "tpr"
truth = $improvability

[[tests]]
kind = "treatment_bias"
id = "effect of the offer"
title = "Does the uplift model promise some ages too much?"
effect = "predicted_effect"
treatment = "offer"
outcome = "accepted"
groups = ["age_band"]
truth = $treatment_bias

[[tests]]
kind = "treatment_bias"
id = "effect of the offer by race"
title = "Does the uplift model promise some races too much?"
effect = "predicted_effect"
treatment = "offer"
outcome = "accepted"
groups = ["race"]
truth = $offer

[[tests]]
kind = "predictive_parity"
id = "meaning of the score"
title = "Does the same score mean the same chance of repayment in every race?"
groups = ["race"]
reference = {race = "White"}
truth = $predictive_parity

[[tests]]
kind = "marginal_outcomes"
id = "just above the threshold"
title = "Do those who were only just approved repay equally often in every race?"
groups = ["race"]
threshold = 0.7
truth = $marginal

[[tests]]
kind = "equalize_thresholds"
id = "thresholds"
title = "Which thresholds would approve those who repay equally often in every race?"
groups = ["race"]
threshold = 0.7
target = "tpr"
truth = $flag
"""
_AGE = "Age has no part in approval or repayment: people who would repay are approved alike at every age."
_OFFER = "The model's error is the same in every race: relative to one another, no race is promised too much."

_SEXES = {"Female": "women", "Male": "men"}


def write_demo(folder: Path, rows: int, seed: int) -> Path:
    """Write the simulated table and its audit file; returns the file's path."""
    from isonomy import simulate
    from isonomy.simulate.lender_design import RACES

    prepare(folder)
    lender = simulate.lender(rows, seed=seed)
    lender.write(folder / "lender.parquet")
    known = lender.truth["facts"]
    facts = known | {
        "age": [_AGE],
        "offer": [_OFFER],
        "marginal": known["predictive_parity"][:1],
        "impact": known["flag"],
    }
    words = {
        "races": ", ".join(f'{race} = "{race} applicants"' for race in RACES),
        "pairs": "\n".join(
            f'"race={race} & sex={sex}" = "{race} {who}"' for race in RACES for sex, who in _SEXES.items()
        ),
    }
    truths = {name: _listed(sentences) for name, sentences in facts.items()}
    file = folder / "audit.toml"
    write(file, Template(_AUDIT).substitute(rows=f"{rows:,}", seed=seed, **words, **truths))
    return file


def _listed(sentences: Iterable[str]) -> str:
    return "\n".join(["[", *(f"  {toml(sentence)}," for sentence in sentences), "]"])
