"""Whether effects differ between strata, and what the reader should be told of a comparison within them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from isonomy.inference import rejected
from isonomy.inference.multiplicity import adjust
from isonomy.likelihood import wording_given as wording
from isonomy.likelihood.decide import Decisions
from isonomy.likelihood.estimate import Estimates
from isonomy.likelihood.estimate_given import SHOWN, Within
from isonomy.likelihood.plan import Plan


def decide_within(decisions: Decisions, estimates: Estimates, within: Within, plan: Plan) -> Decisions:
    """The same decisions, with what has to be said about strata before the other warnings."""
    tested = estimates.tested
    sentences = []
    pvalue = adjust(np.where(tested, within.homogeneity_pvalue, np.nan), "holm")
    if names := [str(estimates.groups[i]) for i in np.flatnonzero(rejected(pvalue, plan.alpha))]:
        sentences.append(wording.differing_warning(names, plan.scale))
    if unjudged := [str(estimates.groups[i]) for i in np.flatnonzero(tested & np.isnan(within.homogeneity_pvalue))]:
        sentences.append(wording.unjudged_warning(unjudged, designed=estimates.design is not None))
    if names := [str(estimates.groups[i]) for i in np.flatnonzero(tested & (within.one_sided > 0))]:
        sentences.append(wording.one_sided_warning(names, int(within.one_sided[tested].max())))
    if not within.effects.complete and within.effects.group.size == SHOWN:
        sentences.append(wording.shown_warning(SHOWN))
    return replace(decisions, warnings=(*sentences, *decisions.warnings), contrast="")
