"""Small results with every verdict and with hostile labels, for tests of report, audit, command line and browser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import isonomy
from isonomy.frames import Group
from isonomy.numerics.arrays import FloatArray
from isonomy.report import Document, Entry
from isonomy.results import Evidence, Note, Status, Verdict, column, provenance, register, storable
from isonomy.results import theme as charts

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-1+1",
    "@SUM(A1:A9)",
    "\tindented",
    "long " * 2_000,
    "שלום עולם",
    "العربية",
    "override \u202egnp.exe",
    "👩🏽‍⚖️ emoji 🏳️‍🌈",
    "two\nlines",
    "bell\x07 escape\x1b[31m null\x00",
    "a|b `code` **bold** [link](javascript:alert(3)) &amp; <b>",
    '"quoted", comma',
    "{{ 7 * 7 }} ${7*7} {% raw %}",
    "[red]rich[/red]",
    "http://example.org www.example.org :smile: @someone",
    "]]> <!-- -->",
)


# An audit file for the rows of `isonomy.simulate.decisions`.
AUDIT = """\
fail_on = []
[data]
path = "decisions.parquet"
[columns]
outcome = "outcome"
prediction = "prediction"
groups = ["race"]
[[tests]]
kind = "flag"
metric = "tpr"
"""

register({"made_up": lambda note: str(note.values["text"])})


@storable
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FakeResult(Evidence):
    """Made-up differences between groups."""

    method: ClassVar[str] = "Numbers made up for a test of the report."
    references: ClassVar[tuple[str, ...]] = ("Nobody (1900). On nothing. Journal of Examples 1, 1-2.",)
    always_assumed: ClassVar[tuple[tuple[str, str], ...]] = (
        ("Rows are independent.", "Cannot be checked from the table: say how the rows were sampled."),
    )
    never_shown: ClassVar[tuple[str, ...]] = (
        "Why the groups differ.",
        "Whether the outcome column is itself recorded alike for all groups.",
    )

    size: FloatArray = column(count=True)
    disparity: FloatArray = column()
    ci_low: FloatArray = column()
    ci_high: FloatArray = column()
    pvalue: FloatArray = column()
    verdicts: tuple[Verdict, ...] = column(name="verdict")
    decider: int = 0  # the finding that decided

    def deciding(self) -> str:
        return self.findings()[self.decider] if self.decider else Evidence.deciding(self)

    def findings(self) -> tuple[str, ...]:
        shown = [i for i in range(len(self.groups)) if not np.isnan(self.disparity[i])]
        return tuple(
            f"For {self.labels[i]} the difference is {self.disparity[i]:+.3f} (p = 0.012)." for i in shown[:20]
        )

    def plot(self) -> Any:
        import altair as alt

        table = self.table()
        names = [charts.short(label) for label in self.labels]
        rows = charts.data({"group": names, **{k: table[k] for k in ("disparity", "ci_low", "ci_high")}})
        base = alt.Chart(rows).encode(y=alt.Y("group:N", title=None, sort=None))
        bars = base.mark_rule(strokeWidth=2).encode(x=alt.X("ci_low:Q", title="Difference"), x2="ci_high:Q")
        return charts.finish(bars + base.mark_point(filled=True, size=60).encode(x="disparity:Q", tooltip="group:N"))


def fake(labels: Sequence[str] = ("Black", "White", "Asian"), verdict: str = "violation", **changes: Any) -> FakeResult:
    """A result over the given group labels."""
    n = len(labels)
    error = np.linspace(0.01, 0.02, n)
    numbers: dict[str, Any] = {
        "groups": tuple(Group((("race", label),)) for label in labels),
        "size": 100.0 * np.arange(1, n + 1),
        "disparity": np.linspace(-0.2, 0.2, n),
        "status": (Status.OK,) * n,
        "pvalue": 1e-310 + error,
        "verdicts": (Verdict(verdict),) * n,
        "notes": ("Some groups are small.",),
    } | changes
    numbers["notes"] = tuple(Note("made_up", values={"text": text}) for text in numbers["notes"])
    ends = {"ci_low": numbers["disparity"] - 2 * error, "ci_high": numbers["disparity"] + 2 * error}
    return FakeResult(
        null="the difference of every group is 0",
        verdict=Verdict(verdict),
        provenance=provenance("flag", {"metric": "tpr", "groups": ("race",)}, rows=600, dropped={"income": 3}),
        **(ends | numbers),
    )


def untested(**changes: Any) -> FakeResult:
    """A result in which nothing was tested."""
    return fake(verdict="inconclusive", pvalue=np.full(3, np.nan), **changes)


def document(**changes: Any) -> Document:
    """A report with every verdict, a failure, and hostile labels."""
    entries = (
        Entry(
            name="flag-tpr", kind="flag", result=fake(), seconds=0.2, seed=7, truth=("Black: the difference is −0.2.",)
        ),
        Entry(name="tolerated", kind="certify", result=fake(verdict="within_tolerance"), title="A title of my own"),
        Entry(name="unclear", kind="flag", result=fake(verdict="inconclusive")),
        Entry(name="hostile", kind="flag", result=fake(HOSTILE), truth=(f"True for {HOSTILE[0]}.",)),
        Entry(name="broken", kind="project", error="ValueError: <b>no</b> rows\nat all", error_kind="crash"),
    )
    given: dict[str, Any] = {
        "title": "A made-up lender, first half of 2026",
        "description": "Made up, to look at the page.",
        "entries": entries,
        "created": "2026-11-15T20:00:00+00:00",
        "data": "decisions.parquet",
        "rows": 600,
        "fail_on": ("violation",),
        "suppress_below": 10,
        "facts": (("isonomy", isonomy.__version__), ("Fingerprint", "abc")),
        "config": 'title = "x"',
    }
    return Document(**(given | changes))
