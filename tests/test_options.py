"""Options: every rule, what is refused, and the messages."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction as Ratio
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

import isonomy
from isonomy import options
from isonomy.errors import UnknownOption, UsageError
from isonomy.options import (
    Alpha,
    Also,
    Column,
    Finite,
    Missing,
    MissingGroup,
    Names,
    Number,
    Positive,
    Power,
    Seeded,
    Tolerance,
    Whole,
    check,
    check_contents,
    check_parameters,
    checked,
    hints,
)

NAN, INF = float("nan"), float("inf")
EVER: tuple[Any, ...] = (True, False, np.True_, NAN, INF, -INF, "0.5", b"1", [0.5], 1j, object())  # never a number


def allowed(value: object, annotation: Any) -> bool:
    try:
        check("argument", value, annotation)
    except UsageError:
        return False
    return True


def allows(annotation: Any, *values: object) -> None:
    for value in values:
        assert allowed(value, annotation), value


def refuses(annotation: Any, *values: object) -> None:
    for value in values:
        assert not allowed(value, annotation), value


# Rules


RULES: dict[str, tuple[Any, tuple[Any, ...], tuple[Any, ...]]] = {
    "Alpha": (
        Alpha,
        (0.05, 1e-300, np.float64(0.5), np.float32(0.25), Ratio(1, 3), 1 - 1e-12),
        (0, 1, 0.0, 1.0, -0.1, 2),
    ),
    "Power": (Power, (0.8,), (0, 1)),
    "Fraction": (options.Fraction, (0.5,), (0, 1)),
    "Positive": (Positive, (1e-300, 1, 2.5, np.int64(3)), (0, 0.0, -1)),
    "Finite": (Finite, (0, -1e308, 2, np.float64(0.1)), ()),
    "Whole": (Whole, (1, 10**12, np.int64(7), np.uint8(1)), (0, -1, 1.0, 1.5, np.float64(2.0))),
}


@pytest.mark.parametrize("name", RULES)
def test_every_rule(name: str) -> None:
    annotation, good, bad = RULES[name]
    allows(annotation, *good)
    refuses(annotation, *bad, *EVER, None)


def test_a_tolerance_may_be_left_out_and_is_never_zero() -> None:
    allows(Tolerance, None, 0.01, 1, 250.0)
    refuses(Tolerance, 0, 0.0, -0.01, *EVER)


@pytest.mark.parametrize(
    ("rule", "inside", "outside", "words"),
    [
        (Number(), (0, -1e9), (), "a finite number"),
        (Number(whole=True), (0, -3), (0.5,), "a whole number"),
        (Number(above=0), (1e-9,), (0,), "a number above 0"),
        (Number(least=0), (0,), (-1e-9,), "a number from 0 up"),
        (Number(below=1), (0.999,), (1,), "a number below 1"),
        (Number(most=1), (1,), (1.001,), "a number up to 1"),
        (Number(above=0, below=1), (0.5,), (0, 1), "a number strictly between 0 and 1"),
        (Number(least=0, most=1), (0, 1), (-0.1, 1.1), "a number from 0 to 1"),
        (Number(above=0, most=1), (1,), (0,), "a number from 0 to 1"),
        (Number(least=1, whole=True), (1,), (0,), "a whole number from 1 up"),
        (Number(least=1, most=9, whole=True), (1, 9), (0, 10), "a whole number from 1 to 9"),
        (Number(above=0, unit="in units of the distance"), (2,), (0,), "a number above 0, in units of the distance"),
    ],
)
def test_limits_and_their_words(rule: Number, inside: tuple[Any, ...], outside: tuple[Any, ...], words: str) -> None:
    assert rule.words == words
    assert all(map(rule.admits, inside))
    assert not any(map(rule.admits, (*outside, *EVER)))


def test_true_is_an_option_in_the_wrong_place_not_the_number_one() -> None:
    for annotation in (Alpha, Positive, Finite, Whole, float, int, Tolerance, Literal[1, 0]):
        for value in (True, False, np.True_):
            assert not allowed(value, annotation), (value, annotation)
    allows(bool, True, False, np.True_)
    refuses(bool, 1, 0, "true", None)


# Words


def test_words_and_their_near_matches() -> None:
    check("missing", "drop", Missing)
    with pytest.raises(
        UnknownOption, match=r"missing: 'dropp' is not allowed\. Did you mean 'drop'\? Allowed: raise, drop"
    ):
        check("missing", "dropp", Missing)
    with pytest.raises(UnknownOption, match="Did you mean 'level'"):
        check("missing_group", "Level", MissingGroup)
    with pytest.raises(UnknownOption) as refusal:
        check("missing", "zzz", Missing)
    assert "Did you mean" not in str(refusal.value)


def test_a_word_is_allowed_only_as_the_type_it_is_written_in() -> None:
    assert allowed(2, Literal[2, 3])
    refuses(Literal[2, 3], 2.0, "2", True, np.int64(2))
    with pytest.raises(UsageError, match=r"levels: 4 is not allowed. Allowed: 2, 3"):
        check("levels", 4, Literal[2, 3])


def test_other_libraries_names_are_translated() -> None:
    criterion = Annotated[Literal["equal_opportunity", "statistical_parity"], Also({"tpr": "equal_opportunity"})]
    check("criterion", "equal_opportunity", criterion)
    check("criterion", None, criterion | None)
    for annotation in (criterion, criterion | None):
        with pytest.raises(UnknownOption, match="It is called 'equal_opportunity' here"):
            check("criterion", "TPR", annotation)
    with pytest.raises(UnknownOption, match="Did you mean 'statistical_parity'"):
        check("criterion", "statistical-parity", criterion)


# Unions, sequences, mappings, arrays


def test_a_union_allows_what_any_of_its_parts_allows() -> None:
    annotation = Literal["population", "rest"] | Finite | Mapping[str, object] | None
    allows(annotation, "rest", 0.5, {"race": "a"}, None)
    refuses(annotation, True, [0.5], NAN)
    with pytest.raises(UnknownOption, match="Did you mean 'population'"):
        check("reference", "populaton", annotation)
    with pytest.raises(UsageError, match=r"'population', 'rest', a finite number, a mapping such as .* or None"):
        check("reference", [0.5], annotation)


def test_numbers_in_sequences() -> None:
    allows(Sequence[float], [0.1, 2], (1,), [], {1.0}, range(3), np.array([0.1, 2.0]), np.arange(3))
    refuses(Sequence[float], [True], ["a"], [NAN], "12", b"12", 1.0, None, np.ones((2, 2)))
    assert allowed([0.1, 0.9], Sequence[Alpha])
    assert not allowed([0.1, 1.0], Sequence[Alpha])
    with pytest.raises(UsageError, match=r"a list \(a number strictly between 0 and 1 each\)"):
        check("levels", [0.1, 1.0], Sequence[Alpha])


def test_text_in_sequences() -> None:
    assert allowed(["a", "b"], Sequence[str])
    assert allowed("ab", Sequence[str] | str)
    refuses(Sequence[str], "ab", [1], [b"a"], [None])


def test_tuples_have_their_length() -> None:
    allows(tuple[float, float], (0.0, 1.0), [0, 1])
    refuses(tuple[float, float], (0.0,), (0.0, 1.0, 2.0), (0.0, True), "01", 0.5)
    assert allowed((1, 2, 3), tuple[int, ...])
    assert allowed(0.5, Finite | tuple[Finite, Finite])


def test_mappings_have_their_values() -> None:
    assert allowed({"a": 1, "b": 0.5}, Mapping[str, float])
    assert allowed({}, Mapping[str, float])
    assert allowed({"a": object()}, Mapping[str, object])
    refuses(Mapping[str, float], {"a": True}, {"a": "1"}, {"a": NAN}, [("a", 1)], "a")
    assert allowed({"a": {"b": 0.5}}, Mapping[str, Mapping[str, float]])
    assert not allowed({"a": {"b": None}}, Mapping[str, Mapping[str, float]])


def test_arrays_functions_and_generators() -> None:
    assert allowed(np.ones(3), NDArray[np.float64])
    assert not allowed([1.0], NDArray[np.float64])
    assert allowed(abs, Callable[[float], float])
    assert not allowed(1, Callable[[float], float])
    allows(Seeded, None, 7, np.random.default_rng(0))


def test_what_the_method_checks_passes() -> None:
    allows(Column, "race", object(), ["a", "b"])
    refuses(Column, 7, None, b"race", {"race": 1}, len, ...)
    allows(Names, ["race"], "race")
    refuses(Names, 7, None, iter(["race"]))


@pytest.mark.parametrize("annotation", [Any, Mapping[str, Any], Sequence[Any]])
def test_any_allows_anything(annotation: Any) -> None:
    assert allowed({"a": [1]} if annotation == Mapping[str, Any] else [1, "a"], annotation)


@pytest.mark.parametrize(
    ("value", "annotation", "expected"),
    [
        (np.array(["a", "b"]), Sequence[str], True),
        (np.array([1.0, 2.0]), Sequence[str], False),
        (np.array([True]), Sequence[float], False),
        (np.array([0.5, np.nan]), Sequence[float], False),
        (np.array([0.5, 2.0]), Sequence[Alpha], False),
    ],
)
def test_an_array_is_a_list_of_its_values(value: Any, annotation: Any, expected: bool) -> None:
    assert allowed(value, annotation) == expected


# Messages


def test_messages_name_the_argument_the_value_and_what_is_allowed() -> None:
    with pytest.raises(UsageError, match=r"alpha: 5 is not allowed; give a number strictly between 0 and 1\."):
        check("alpha", 5, Alpha)
    with pytest.raises(UsageError, match=r"tolerance: 0 is not allowed; give a number above 0 or None\."):
        check("tolerance", 0, Tolerance)
    with pytest.raises(UsageError, match=r"progress: 1 is not allowed; give True or False\."):
        check("progress", 1, bool)
    with pytest.raises(UsageError, match=r"score: 3 is not allowed; give text or None\."):
        check("score", 3, str | None)


def test_long_values_are_cut_short() -> None:
    with pytest.raises(UsageError) as refusal:
        check("alpha", list(range(1_000)), Alpha)
    assert len(str(refusal.value)) < 200
    assert "..." in str(refusal.value)
    with pytest.raises(UsageError) as refusal:
        check("alpha", np.zeros((50, 2)), Alpha)
    assert "\n" not in str(refusal.value)


# Functions and estimators


@checked
def ask(data: object, *, alpha: Alpha = 0.05, missing: Missing = "raise", splits: Whole = 7) -> float:
    """A question."""
    return alpha * splits


def test_a_checked_function_is_the_same_function() -> None:
    assert ask([1], alpha=0.1, splits=2) == 0.2
    assert ask.__doc__ == "A question."
    assert list(inspect.signature(ask).parameters) == ["data", "alpha", "missing", "splits"]
    assert list(hints(ask)) == ["data", "alpha", "missing", "splits"]
    calls: list[dict[str, Any]] = [{"alpha": 1}, {"missing": "dropp"}, {"splits": True}]
    for wrong in calls:
        with pytest.raises(UsageError, match=next(iter(wrong))):
            ask([1], **wrong)
    with pytest.raises(TypeError, match=r"ask\(\) got an unexpected keyword argument 'alhpa'. Did you mean 'alpha'"):
        ask([1], alhpa=0.1)  # type: ignore[call-arg]


def test_a_misspelled_word_of_an_option_has_its_near_match() -> None:
    words: list[tuple[Any, str, str]] = [
        (isonomy.likelihood, "corection", "correction"),
        (isonomy.null, "sides", "side"),
        (isonomy.crossfit, "fold", "folds"),
    ]
    for option, wrong, right in words:
        with pytest.raises(TypeError, match=rf"{option.name}\(\) got an .* {wrong!r}. Did you mean {right!r}"):
            option(**{wrong: 1})


def test_positional_arguments_are_checked_too() -> None:
    @checked
    def half(share: Alpha, name: str) -> float:
        return share / 2

    assert half(0.5, "a") == 0.25
    calls: list[Any] = [(2.0, "a"), (0.5, 3)]
    for arguments in calls:
        with pytest.raises(UsageError, match="not allowed"):
            half(*arguments)


def test_nothing_is_computed_before_the_check() -> None:
    calls = []

    @checked
    def count(*, alpha: Alpha) -> None:
        calls.append(alpha)

    with pytest.raises(UsageError):
        count(alpha=0)
    assert not calls


class Estimator:
    """As in scikit-learn, parameters are stored unchanged and checked by ``fit``."""

    def __init__(self, alpha: Alpha = 0.05, *, method: Literal["mean", "none"] = "mean", other=None) -> None:  # type: ignore[no-untyped-def]
        self.alpha, self.method, self.other = alpha, method, other

    def fit(self) -> Estimator:
        check_parameters(self, vars(self))
        return self


def test_estimators_are_checked_when_they_are_fitted() -> None:
    Estimator().fit()
    Estimator(0.1, method="none", other=object()).fit()
    wrong: Any = Estimator(2)
    with pytest.raises(UsageError, match="alpha: 2"):
        wrong.fit()
    misspelt: Any = Estimator(method="meen")  # type: ignore[arg-type]
    with pytest.raises(UnknownOption, match="Did you mean 'mean'"):
        misspelt.fit()


# The same limits for the audit file


@pytest.mark.parametrize(
    ("annotation", "good", "bad", "schema"),
    [
        (Alpha, (0.05,), (0, 1), {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
        (Positive, (3,), (0,), {"type": "number", "exclusiveMinimum": 0}),
        (Whole, (1,), (0, 1.5), {"type": "integer", "minimum": 1}),
        (Annotated[float, Number(least=0, most=1)], (0, 1), (1.1,), {"type": "number", "minimum": 0, "maximum": 1}),
        (Finite, (0,), ("x",), {"type": "number"}),
    ],
)
def test_limits_of_the_audit_file(annotation: Any, good: tuple[Any, ...], bad: tuple[Any, ...], schema: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    assert adapter.json_schema() == schema
    for value in good:
        assert adapter.validate_python(value) == value
    for value in bad:
        with pytest.raises(ValidationError):
            adapter.validate_python(value)


def test_a_tolerance_in_the_audit_file() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(Tolerance)
    assert adapter.validate_python(None) is None
    assert adapter.validate_python(0.02) == 0.02
    with pytest.raises(ValidationError):
        adapter.validate_python(0)


def _endless() -> tuple[Any, ...]:
    listed: list[Any] = []
    listed += [listed, listed]
    mapped: dict[str, Any] = {"a": [1]}
    mapped["b"] = (mapped,)
    deep: Any = 1
    for _ in range(options.DEEPEST + 1):
        deep = [deep]
    return listed, mapped, deep


@pytest.mark.parametrize("value", _endless(), ids=["list", "mapping", "deep"])
def test_what_contains_itself_is_refused_wherever_it_is_given(value: Any) -> None:
    """Walking through such an object can crash the process."""
    words = "lists are nested more than 50 deep, or one contains itself"
    table = {"g": ["a", "b"] * 50, "p": [0, 1, 1, 1] * 25}
    with pytest.raises(UsageError, match=f"groups: {words}"):
        isonomy.flag(table, metric="selection_rate", prediction="p", groups=value)
    with pytest.raises(UsageError, match=f"data: {words}"):
        isonomy.flag({"g": value, "p": [0, 1]}, metric="selection_rate", prediction="p", groups="g")
    with pytest.raises(UsageError, match=f"X: {words}"):
        isonomy.GroupCalibrator(score_column=0).fit(value, [0, 1])
    check_contents("x", [[1], [2, (3, {"a": [4]})]])
