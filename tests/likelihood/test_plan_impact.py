"""What a table of adverse impact asks of the rows."""

from __future__ import annotations

import isonomy as iso
from isonomy.frames import open_source
from isonomy.likelihood.plan_impact import ImpactPlan
from isonomy.results import QUESTIONS
from support.hires import hires


def planned(**options: object) -> ImpactPlan:
    plan = QUESTIONS["adverse_impact"].planned(open_source(hires()), {"groups": ["race", "sex"], **options})
    assert isinstance(plan, ImpactPlan)
    return plan


def test_decisions_are_counted_and_scores_are_read() -> None:
    assert len(planned(prediction="hired").requests) == 1
    assert planned(prediction="hired", score="score").requests == ()


def test_the_reference_may_be_a_group() -> None:
    named = planned(prediction="hired", reference=iso.Group.of({"race": "a", "sex": "f"}))
    assert named.reference == {"race": "a", "sex": "f"}
    assert planned(prediction="hired").reference is None
