"""What an argument may be, stated once: in the annotations of the public signatures.

An annotation is a `Literal`, a plain type, or `Annotated` with a rule of this module. `checked` reads it to check a
call, the audit to make the model of its file and the JSON schema, and the documentation shows it. A keyword added to a
function is then a key of the audit file.

    Alpha, Power        a number strictly between 0 and 1
    Tolerance           None or a number above 0
    Positive            a number above 0
    Whole               a whole number from 1 up
    Draws               a whole number from 1 to 100,000: how often something is drawn or split
    Column              the name of a column, checked against the table
    Names               several names of columns, or one

An option with options of its own is a subclass of `Option`, and its class is the annotation.

What a rule cannot express (two options that exclude each other, a value that depends on the table) is checked in the
question's plan.
"""

from __future__ import annotations

import inspect
import numbers
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import MISSING, dataclass, fields
from functools import cache, wraps
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    ParamSpec,
    Self,
    TypedDict,
    TypeVar,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from isonomy.errors import UnknownOption, UsageError, near
from isonomy.errors import shown as shown

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number within limits: ``above`` and ``below`` are exclusive, ``least`` and ``most`` inclusive."""

    above: float | None = None
    below: float | None = None
    least: float | None = None
    most: float | None = None
    whole: bool = False
    unit: str = ""  # written after the limits, such as "in units of the distance"

    def admits(self, value: object) -> bool:
        """Whether ``value`` is such a number. True and False are not numbers here."""
        kind = Integral if self.whole else Real
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, kind):
            return False
        try:
            number = float(value)
        except OverflowError:  # more digits than any count, rate or seed has
            return False
        return (
            bool(np.isfinite(number))
            and (self.above is None or number > self.above)
            and (self.least is None or number >= self.least)
            and (self.below is None or number < self.below)
            and (self.most is None or number <= self.most)
        )

    @property
    def words(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        low = self.above if self.least is None else self.least
        high = self.below if self.most is None else self.most
        if self.above is not None and self.below is not None:
            text = f"{kind} strictly between {self.above:g} and {self.below:g}"
        elif low is not None and high is not None:
            text = f"{kind} from {low:g} to {high:g}"
        elif low is not None:
            text = f"{kind} above {low:g}" if self.least is None else f"{kind} from {low:g} up"
        elif high is not None:
            text = f"{kind} {'below' if self.most is None else 'up to'} {high:g}"
        else:
            text = kind if self.whole else "a finite number"
        return f"{text}, {self.unit}" if self.unit else text

    def __get_pydantic_core_schema__(
        self, source: object, handler: Callable[[object], dict[str, object]]
    ) -> dict[str, object]:
        limits = {"gt": self.above, "ge": self.least, "lt": self.below, "le": self.most}
        return handler(source) | {name: limit for name, limit in limits.items() if limit is not None}


# Values that are certainly not columns, nor names of any.
_NOT_COLUMNS = (
    *(bool, np.bool_, numbers.Number, bytes, Mapping, Set, Iterator),
    *(type, np.random.Generator, BaseException, slice),
)


@dataclass(frozen=True, slots=True)
class Form:
    """An argument with its own form: an audit file writes it as ``name`` determines, and the question checks it."""

    name: str

    def admits(self, value: object) -> bool:
        """Whether ``value`` may be of this form, as far as can be known without the table."""
        if self.name == "seed":
            return value is None or isinstance(value, np.random.Generator) or Number(least=0, whole=True).admits(value)
        if self.name not in ("column", "names"):
            return True
        several = self.name == "column" or hasattr(value, "__iter__")
        refused = value is None or value is ... or isinstance(value, _NOT_COLUMNS) or callable(value)
        return several and not refused


@dataclass(frozen=True, slots=True, eq=False)
class Also:
    """Other libraries' names for the words of a `Literal`: ``Annotated[Literal[...], Also({...})]``.

    They are not allowed, and the error message gives the name used here.
    """

    names: Mapping[str, str]


@dataclass(frozen=True)
class Option:
    """An option with options of its own, such as ``isonomy.likelihood(correction="bartlett")``.

    A subclass is a frozen dataclass with a `name`, under which it is exported. Its annotations are checked when it is
    made, and the class stands in the annotation of the keyword that takes it::

        @dataclass(frozen=True)
        class Likelihood(Option):
            name: ClassVar[str] = "likelihood"
            correction: Literal["none", "bartlett"] = "none"
            resamples: Draws = 2000

        likelihood = Likelihood

        def flag(..., method: Literal["published"] | Likelihood = Likelihood()): ...

    An audit file writes it as a table with one key, ``method = {likelihood = {correction = "bartlett"}}``; a value that
    is not a table stands for the first field, ``method = {likelihood = "bartlett"}``. A subclass that checks more in
    ``__post_init__`` calls ``Option.__post_init__(self)`` first.
    """

    name: ClassVar[str]

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        known = [part.name for part in fields(cls)]
        for name in kwargs:
            if name not in known:
                raise unexpected(cls.name, name, known)
        return super().__new__(cls)

    def __init_subclass__(cls) -> None:
        cls.__repr__ = Option.__str__  # type: ignore[assignment, method-assign]  # instead of that of `dataclass`

    def __post_init__(self) -> None:
        check_fields(self)

    def __str__(self) -> str:
        """The call that makes the option, without the fields that have their defaults."""
        parts = []
        for place, part in enumerate(fields(self)):
            value = getattr(self, part.name)
            text = f'"{value}"' if isinstance(value, str) else str(value)
            if value != part.default and part.compare:  # what does not change a number is not compared
                positional = place == 0 or part.default is MISSING
                parts.append(text if positional else f"{part.name}={text}")
        return f"{self.name}({', '.join(parts)})"


COLUMN = Form("column")
NAMES = Form("names")

Alpha = Annotated[float, Number(above=0, below=1)]
Power = Annotated[float, Number(above=0, below=1)]
Fraction = Annotated[float, Number(above=0, below=1)]
Positive = Annotated[float, Number(above=0)]
Finite = Annotated[float, Number()]
Tolerance = Annotated[float, Number(above=0)] | None
Whole = Annotated[int, Number(least=1, whole=True)]
Draws = Annotated[int, Number(least=1, most=100_000, whole=True)]
Column = Annotated[Any, COLUMN]  # its name; or an array, or a condition: see frames/source.py
Names = Annotated[Sequence[str] | str, NAMES]
Seeded = Annotated[int | np.random.Generator | None, Form("seed")]

Missing = Literal["raise", "drop"]
MissingGroup = Literal["raise", "level", "drop"]


class RowOptions(TypedDict, total=False):
    """How the rows of a table are read. Every question takes these keywords.

    Parameters
    ----------
    count : str, optional
        A column with the number of equal, independent rows each line stands for.
    weight : str, optional
        A column with the number of people each row stands for, such as a survey's weights. Only their proportions
        matter. Shares and averages are by weight; numbers of rows are not.
    cluster : str, optional
        A column that says which rows belong together: a person, a household, a branch. Errors are then measured
        between clusters, and groups of fewer than 10 effective clusters are listed, not tested.
    missing : {"raise", "drop"}, default "raise"
        What to do about missing values.
    missing_group : {"raise", "level", "drop"}, default "raise"
        What to do about missing groups: ``"level"`` makes them a group of their own.
    """

    count: Column | None
    weight: Column | None
    cluster: Column | None
    missing: Missing
    missing_group: MissingGroup


ROW_DEFAULTS: RowOptions = {
    "count": None,
    "weight": None,
    "cluster": None,
    "missing": "raise",
    "missing_group": "raise",
}


# What other libraries call our keywords.
OTHER_NAMES = {
    **dict.fromkeys(("y_true", "y", "label", "labels", "target", "label_column", "actual"), "outcome"),
    **dict.fromkeys(("y_pred", "yhat", "y_hat", "decision", "predictions"), "prediction"),
    **dict.fromkeys(("y_score", "y_prob", "y_proba", "proba", "probability", "scores"), "score"),
    **dict.fromkeys(
        ("sensitive_features", "sensitive", "protected", "protected_attribute", "prot_attr", "by"), "groups"
    ),
    **dict.fromkeys(("control_features", "conditional_on", "strata", "stratify"), "given"),
    **dict.fromkeys(("tol", "margin", "epsilon", "delta"), "tolerance"),
    **dict.fromkeys(("sample_weight", "sample_weights", "weights"), "weight"),
    **dict.fromkeys(("pos_label", "positive_label"), "positive"),
    **dict.fromkeys(("seed", "random_state"), "rng"),
    **dict.fromkeys(("df", "frame", "table"), "data"),
    **dict.fromkeys(("significance", "level"), "alpha"),
    **dict.fromkeys(("baseline", "privileged", "ref_group", "ref_groups_dict"), "reference"),
    **dict.fromkeys(("correction", "multipletests"), "adjust"),
    **dict.fromkeys(("t", "treated", "w"), "treatment"),
    **dict.fromkeys(("uplift", "cate"), "effect"),
}


def checked(function: Callable[P, R], *, moved: Mapping[str, str] | None = None) -> Callable[P, R]:
    """Check the arguments of every call against the signature's annotations before the function runs.

    ``moved``: keywords of earlier versions, and what to write in their place; {} stands for the value.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        known = hints(function)
        for name, value in (*zip(known, args, strict=False), *kwargs.items()):
            if moved and name in moved:
                raise UsageError(f"{name}: it has moved; write {moved[name].replace('{}', shown(value))}.")
            if name not in known:
                raise unexpected(function.__name__, name, known)
            check(name, value, known[name])
        return function(*args, **kwargs)

    return call


def unexpected(call: str, name: str, known: Collection[str]) -> TypeError:
    """The error for a misspelled keyword, or for another library's word, with ours."""
    ours = OTHER_NAMES.get(name.lower())
    hint = f" It is called {ours!r} here." if ours in known else near(name, known)
    return TypeError(f"{call}() got an unexpected keyword argument {name!r}.{hint}")


def check_fields(value: object) -> None:
    kind: Callable[..., object] = type(value)
    for name, annotation in hints(kind).items():
        check(name, getattr(value, name), annotation)


def check_parameters(estimator: object, parameters: Mapping[str, object]) -> None:
    known = hints(type(estimator).__init__)
    for name, value in parameters.items():
        if name in known:
            check(name, value, known[name])


@cache
def hints(function: Callable[..., object]) -> dict[str, object]:
    """The annotation of each parameter, including ``Annotated``; ``**rows`` stands for the keywords it shares."""
    annotations = get_type_hints(function, include_extras=True)
    known: dict[str, object] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        annotation = annotations.get(name)
        if get_origin(annotation) is Unpack:
            known |= get_type_hints(get_args(annotation)[0], include_extras=True)
        elif name in annotations and parameter.kind is not parameter.VAR_KEYWORD:
            known[name] = annotation
    return known


def check(argument: str, value: object, annotation: object) -> None:
    check_contents(argument, value)
    if _fits(value, annotation):
        return
    alternatives = members(annotation)
    words = [str(word) for kind in alternatives if get_origin(kind) is Literal for word in get_args(kind)]
    phrases = [phrase for phrase in map(_phrase, alternatives) if phrase]
    if words and (isinstance(value, str) or not phrases):
        calls = [_phrase(kind) for kind in alternatives if isinstance(kind, type) and issubclass(kind, Option)]
        raise UnknownOption(argument, value, [*words, *calls], also_called(annotation))
    allowed = [*(repr(word) for word in words), *phrases]
    raise UsageError(f"{argument}: {shown(value)} is not allowed; give {_either(allowed)}.")


DEEPEST = 50  # lists in lists


def check_contents(argument: str, value: object) -> None:
    """Raise for a list or a mapping that contains itself, or is nested so deeply that it might.

    Also for text that is not Unicode, which no engine and no file can hold.
    """
    level: list[object] = [(value,)]
    for _ in range(DEEPEST + 1):
        inner: dict[int, object] = {}
        for outer in level:
            for item in (*outer.keys(), *outer.values()) if isinstance(outer, dict) else outer:  # type: ignore[attr-defined]
                if isinstance(item, (list, tuple, dict)):
                    inner[id(item)] = item
                elif (
                    isinstance(item, str)
                    and argument != "data"  # a table is checked where it is opened
                    and not item.isascii()
                    and item != item.encode("utf-8", "replace").decode()
                ):
                    raise UsageError(f"{argument}: {shown(item)} contains half of a surrogate pair; remove it.")
        level = list(inner.values())
        if not level:
            return
    raise UsageError(f"{argument}: lists are nested more than {DEEPEST} deep, or one contains itself.")


@cache
def form_of(annotation: object) -> str | None:
    rules = (rule for member in members(annotation) for rule in getattr(member, "__metadata__", ()))
    return next((rule.name for rule in rules if isinstance(rule, Form)), None)


def members(annotation: object) -> tuple[object, ...]:
    """The alternatives of a union, or the annotation alone."""
    if get_origin(annotation) in (Union, UnionType):
        return tuple(member for part in get_args(annotation) for member in members(part))
    if also_called(annotation):  # what it annotates is checked as it stands
        return members(get_args(annotation)[0])
    return (annotation,)


def also_called(annotation: object) -> dict[str, str]:
    """Other libraries' names for the allowed words, wherever the annotation gives them."""
    if get_origin(annotation) in (Union, UnionType):
        return {word: ours for part in get_args(annotation) for word, ours in also_called(part).items()}
    given = (rule for rule in getattr(annotation, "__metadata__", ()) if isinstance(rule, Also))
    return {word: ours for rule in given for word, ours in rule.names.items()}


def _fits(value: object, annotation: object) -> bool:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is Annotated:
        for rule in parts[1:]:
            if isinstance(rule, Also):  # what it annotates is checked as it stands
                return _fits(value, parts[0])
            if isinstance(rule, (Number, Form)) and not rule.admits(value):
                return False
        return True
    if origin is Literal:
        # True == 1, so the type must agree too.
        return (type(value), value) in list(zip(map(type, parts), parts, strict=True))
    if annotation in (NoneType, None):
        return value is None
    if annotation is Any:
        return True
    if annotation is bool:
        return isinstance(value, (bool, np.bool_))
    if annotation in (float, int):
        return Number(whole=annotation is int).admits(value)
    kind = origin or annotation
    if kind is str or not (isinstance(kind, type) and issubclass(kind, Sequence | Mapping)):
        return not isinstance(kind, type) or isinstance(value, kind)
    return _collects(value, kind, parts)


def _collects(value: object, kind: type, inner: tuple[object, ...]) -> bool:
    """Whether the items of a sequence (or array), or the values of a mapping, are allowed."""
    if issubclass(kind, Mapping):
        return isinstance(value, Mapping) and (len(inner) != 2 or all(_fits(item, inner[1]) for item in value.values()))
    if isinstance(value, np.ndarray):
        value = value.tolist() if value.ndim == 1 else None
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Collection):
        return False
    if kind is tuple and inner and inner[-1] is not Ellipsis:
        return len(value) == len(inner) and all(_fits(i, a) for i, a in zip(value, inner, strict=True))
    return not inner or all(_fits(item, inner[0]) for item in value)


_PLAIN: dict[object, str] = {
    bool: "True or False",
    float: "a finite number",
    int: "a whole number",
    str: "text",
    NoneType: "None",
}
_FORMS = {
    "column": "the name of a column",
    "names": "names of columns",
    "seed": "None, a whole number from 0 up or a numpy Generator",
}


def _phrase(annotation: object) -> str:
    """What an alternative of an annotation allows, in words; the words of a `Literal` are listed separately."""
    origin = get_origin(annotation)
    if origin is Literal:
        return ""
    if origin is Annotated:
        rules = get_args(annotation)[1:]
        phrases = [rule.words for rule in rules if isinstance(rule, Number)]
        phrases += [_FORMS.get(rule.name, "") for rule in rules if isinstance(rule, Form)]
        return " and ".join(filter(None, phrases))
    kind = origin or annotation
    if kind in _PLAIN:
        return _PLAIN[kind]
    if not isinstance(kind, type):
        return ""
    if issubclass(kind, Option):
        return f"{kind.name}(...)"
    if issubclass(kind, Mapping):  # of plain objects: how a group is named by its columns
        return """a mapping such as {"race": "White"}""" if object in get_args(annotation) else "a mapping"
    if issubclass(kind, Sequence):
        inner = [phrase for part in get_args(annotation)[:1] for phrase in map(_phrase, members(part)) if phrase]
        return f"a list ({_either(inner)} each)" if inner else "a list"
    return "an array" if kind is np.ndarray else f"a {kind.__name__}"


def _either(phrases: Sequence[str]) -> str:
    unique = list(dict.fromkeys(phrases))
    return unique[0] if len(unique) == 1 else f"{', '.join(unique[:-1])} or {unique[-1]}" if unique else "another value"


@dataclass(frozen=True, slots=True)
class Seed:
    """The seed of a generator: ``entropy`` reproduces it through ``default_rng(entropy)``.

    ``entropy`` is None if the caller passed a Generator, whose state only the caller can record.
    """

    entropy: int | None
    origin: str  # "given", "drawn", "generator"


def resolve(rng: int | np.random.Generator | None) -> np.random.Generator:
    """The generator of a call. None draws fresh entropy, which `seed_of` records: every run can be repeated."""
    if isinstance(rng, np.random.Generator):
        return rng
    if rng is None:
        # JSON readers that store numbers as doubles keep 53 bits.
        rng = int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> np.uint64(11))
    elif isinstance(rng, bool) or not isinstance(rng, (int, np.integer)) or rng < 0:
        raise UsageError(f"rng: {rng!r} is not allowed; give None, a non-negative int or a numpy Generator.")
    return np.random.default_rng(int(rng))


def seed_of(generator: np.random.Generator, given: int | np.random.Generator | None) -> Seed:
    """The record of the generator that `resolve` made of what was given."""
    if generator is given:  # it may have been used already, so its seed would not reproduce it
        return Seed(None, "generator")
    sequence: Any = generator.bit_generator.seed_seq
    return Seed(int(sequence.entropy), "drawn" if given is None else "given")


def named_seed(seed: int, name: str) -> int:
    """An integer seed for a named part of a run, independent of the other parts and their order."""
    sequence = np.random.SeedSequence([seed, zlib.crc32(name.encode())])
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(11))
