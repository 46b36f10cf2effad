"""Evidence, the class of all results: frozen, with a table in the caller's library, and in words."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import isonomy
from isonomy.errors import UsageError
from isonomy.frames import Group, open_source
from isonomy.numerics.arrays import FloatArray
from isonomy.results import Evidence, Movement, Note, Status, Verdict, column, phrases, provenance
from isonomy.results.evidence import as_frame, read_only


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Example(Evidence):
    method: ClassVar[str] = "looking"
    always_assumed: ClassVar[tuple[tuple[str, str], ...]] = (("rows are independent", "cannot be checked"),)
    never_shown: ClassVar[tuple[str, ...]] = ("anything else",)

    own: FloatArray = column("My own", unit="%")
    n: FloatArray = column(count=True)
    reference_n: FloatArray = column(count=True)
    estimate: FloatArray = column()
    metric: tuple[str, ...] = column(withheld=False)
    curve: FloatArray = column(listed=False)
    verdicts: tuple[Verdict, ...] = column(name="verdict")
    extra: Any = None

    def findings(self) -> tuple[str, ...]:
        return ("Something was found.",)

    def plot(self) -> Any:
        import altair as alt

        from isonomy.results import theme

        return theme.finish(alt.Chart(theme.data({"x": self.estimate})).mark_point().encode(x="x:Q"))


@pytest.fixture
def example() -> Example:
    return Example(
        null="nothing",
        verdict=Verdict.INCONCLUSIVE,
        notes=(Note("merged"),),
        provenance=provenance("flag", {"alpha": 0.05}),
        groups=(
            Group.from_mapping({"race": "b"}),
            Group.from_mapping({"race": "<script>"}),
            Group.from_mapping({"race": None}),
        ),
        status=(Status.OK, Status.TOO_SMALL, Status.UNBOUNDED),
        n=np.array([3.0, 30, 30]),
        reference_n=np.array([30.0, 4, 30]),
        estimate=np.array([0.5, np.inf, np.nan]),
        own=np.array([0.1, 0.2, 0.3]),
        metric=("tpr", "tpr", "tpr"),
        curve=np.arange(6.0).reshape(2, 3),
        verdicts=(Verdict.INCONCLUSIVE,) * 3,
    )


def test_columns_are_declared_once(example: Example) -> None:
    """The table, its order, headings and units follow from the declarations."""
    table = example.table()
    order = ["group", "metric", "n", "estimate", "verdict", "status", "own", "reference_n"]
    assert list(table) == order
    described = example.described(table)
    assert [described[name].title for name in ("n", "own", "verdict")] == ["Rows counted", "My own (%)", "Verdict"]
    assert example.units() == {"own": "%"}
    assert example.labels == tuple(table["group"])


def test_a_group_is_small_if_one_of_its_counts_is(example: Example) -> None:
    shown = replace(example, verdicts=(Verdict.VIOLATION,) * 3, verdict=Verdict.VIOLATION, status=(Status.OK,) * 3)
    hidden = shown.suppressed(5)
    nothing = [True, True, False]
    assert np.isnan(hidden.own).tolist() == nothing
    assert np.isnan(hidden.curve).tolist() == [nothing, nothing]
    assert hidden.status == (Status.SUPPRESSED, Status.SUPPRESSED, Status.OK)
    assert hidden.verdicts == (Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE, Verdict.VIOLATION)
    assert hidden.verdict is Verdict.VIOLATION
    assert hidden.metric == shown.metric  # declared as published
    assert shown.suppressed(40).verdict is Verdict.INCONCLUSIVE
    assert shown.suppressed(0) is shown


def test_notes_lose_the_groups_that_are_withheld(example: Example) -> None:
    about = Note("overlapping", groups=example.labels)
    alone = Note("overlapping", groups=example.labels[:1])
    result = replace(example, notes=(about, alone, Note("other_rows")), status=(Status.OK,) * 3).published(5)
    assert result.notes[0].groups == example.labels[2:]
    assert alone not in result.notes
    assert Note("withheld") in result.notes
    again = result.published(5)
    assert again.notes == result.notes


def test_lines_of_two_audits_are_matched_by_their_keys(example: Example) -> None:
    assert example.keys() == tuple((group, "tpr") for group in example.groups)
    assert example.names == example.labels
    two = replace(example, metric=("tpr", "fpr", "tpr"))
    assert two.names[1] == f"{example.labels[1]} (fpr)"
    assert example.movement() == phrases.VERDICTS_ALONE


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Moving(Example):
    disparity: FloatArray = column(unit="points")
    standard_error: FloatArray = column(listed=False)


@pytest.mark.parametrize(("scale", "kind"), [("difference", "points"), ("ratio", "ratio"), ("odds_ratio", "ratio")])
def test_the_disparity_is_what_moves(example: Example, scale: str, kind: str) -> None:
    given = {f.name: getattr(example, f.name) for f in fields(example)}
    given["provenance"] = provenance("flag", {"scale": scale})
    moved = Moving(**given, disparity=np.ones(3), standard_error=np.zeros(3)).movement()
    assert isinstance(moved, Movement)
    assert (moved.kind, moved.value.tolist()) == (kind, [1, 1, 1])


def test_results_are_frozen(example: Example) -> None:
    with pytest.raises(FrozenInstanceError):
        example.null = "x"  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        example.estimate[0] = 1.0


def test_a_result_does_not_change_with_the_array_it_was_made_from(example: Example) -> None:
    mine = np.array([1.0, 2.0, 3.0])
    result = replace(example, estimate=mine)
    mine[0] = 99
    assert result.estimate[0] == 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    values: np.ndarray[Any, Any]
    parts: tuple[Part, ...] = ()


def test_parts_are_read_only_too(example: Example) -> None:
    mine = np.zeros(3)
    whole = Part(mine, (Part(mine[:2]),))
    result = replace(example, extra=(whole, "text", None))
    mine[0] = 99
    for part in (result.extra[0], result.extra[0].parts[0]):
        assert part.values[0] == 0
        with pytest.raises(ValueError, match="read-only"):
            part.values[0] = 1.0
    alone = Part(np.zeros(3))
    read_only(alone)
    with pytest.raises(ValueError, match="read-only"):
        alone.values[0] = 1.0


def test_options_are_recorded_as_plain_values() -> None:
    condition = isonomy.col("x") > 1
    options = {
        "alpha": np.float32(0.5),
        "grid": np.arange(3),
        "long": np.arange(2_000),
        "expr": condition,
        "groups": ["race", ("sex",)],
        "reference": {1: np.int8(2)},
    }
    record = provenance("example", options, rows=5)
    assert record.version == isonomy.__version__
    assert record.options["alpha"] == 0.5
    assert type(record.options["alpha"]) is float
    assert record.options["grid"] == (0, 1, 2)
    assert record.options["expr"] == repr(condition)
    assert record.options["groups"] == ("race", ("sex",))
    assert record.options["reference"] == {"1": 2}
    assert len(record.options["long"]) < 200  # numpy's own abbreviation
    assert (record.rows, record.dropped, record.seed, record.backend) == (5, {}, None, "polars")


@pytest.mark.parametrize(("backend", "module"), [("pandas", "pandas"), ("polars", "polars"), ("pyarrow", "pyarrow")])
def test_tables_come_in_the_chosen_library(example: Example, backend: str, module: str) -> None:
    frame = example.to_frame(backend)
    assert type(frame).__module__.startswith(module)
    with pytest.raises(UsageError, match="pandas, polars, pyarrow"):
        example.to_frame("excel")


def test_the_callers_library_is_remembered(engine: Any, example: Example) -> None:
    data = engine({"g": ["a", "b"]})
    source = open_source(data)
    record = provenance("example", {}, source=source)
    result = replace(example, provenance=record)
    module = type(data).__module__.split(".")[0]
    expected = module if module in ("pandas", "pyarrow") else "polars"
    assert type(result.to_frame()).__module__.startswith(expected)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_counts_are_whole_numbers_in_a_frame(backend: str) -> None:
    whole, withheld = np.array([3.0, 4.0]), np.array([3.0, np.nan])
    frame = as_frame({"n": whole, "size": withheld, "estimate": whole}, backend, counts=("n", "size"))
    kinds = [str(t) for t in (frame.schema.types if backend == "pyarrow" else frame.dtypes)]
    assert [kind.lower() for kind in kinds] in (["int64", "int64", "float64"], ["int64", "int64", "double"])
    missing = {
        "pandas": lambda c: c.isna().sum(),
        "polars": lambda c: c.null_count(),
        "pyarrow": lambda c: c.null_count,
    }
    assert missing[backend](frame["size"]) == 1


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WithPvalue(Example):
    pvalue: Any = np.nan


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WithAdjusted(WithPvalue):
    decisive: ClassVar[tuple[str, ...]] = ("pvalue", "adjusted_pvalue")

    adjusted_pvalue: Any = np.nan


def test_no_pvalue_is_no_answer(example: Example) -> None:
    given = {f.name: getattr(example, f.name) for f in fields(example)}
    assert example.answered  # there is no test, so nothing is missing
    assert WithPvalue(**given, pvalue=0.9).answered
    assert WithPvalue(**given, pvalue=np.array([np.nan, 0.9])).answered
    assert WithPvalue(**given | {"verdict": Verdict.VIOLATION}).answered  # first published, then withheld
    assert WithAdjusted(**given, adjusted_pvalue=np.array([0.9])).answered
    for empty in (WithPvalue(**given), WithPvalue(**given, pvalue=np.full(3, np.nan)), WithAdjusted(**given)):
        assert not empty.answered
        assert empty.headline().startswith("Not answered: no group could be tested")
        assert empty.deciding() == empty.headline()
        assert empty.headline() in empty.summary()


@pytest.mark.parametrize(
    ("columns", "depth", "warned"), [(["g", "h"], 1, True), (["g"], 1, False), (["g", "h"], 2, False)]
)
def test_columns_that_may_merge_groups_are_told_beside_withheld_ones(
    columns: list[str], depth: int, warned: bool
) -> None:
    """Group c is "a or c" minus a."""
    groups = np.repeat(["a", "b", "c", "d"], [400, 400, 7, 9])
    table = {"g": groups, "h": np.where(groups == "b", "b", "others"), "p": np.arange(816) % 2}
    result = isonomy.flag(table, metric="selection_rate", prediction="p", groups=columns, depth=depth).published(20)
    assert (Note("merged") in result.notes) is warned
