"""The sweep: every public call with hostile tables, names, types and arguments.

The rule: an `IsonomyError` that names the argument, or the right number, within the time limit.

    python -m fuzz.sweep --calls 16000 --seed 1
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import polars as pl

import isonomy as iso
from fuzz import commands, forms
from fuzz.calls import (
    AUDIT,
    Public,
    fitted,
    internal_names,
    numbers,
    opened,
    plain,
    public,
    rows_of_numbers,
    stored,
    table,
)
from isonomy.options import hints

LIMIT = 30.0  # seconds of processor time
OUTCOMES = ("error", "right", "unnamed", "wrong", "traceback", "hang")
BAD = ("unnamed", "wrong", "traceback", "hang")


CONTROL = re.compile("[\x00-\x08\x0e-\x1b\ufffe\uffff]|\\\\u00[01]")
# Messages of estimators name the columns of X by their roles.
ROLES = ("groups", "treatment", "outcome", "effect", "score", "score_column", "baseline", "propensity", "features")


class Hang(BaseException):
    """The time limit has passed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one call."""

    call: str
    kind: str  # what was drawn
    outcome: str
    detail: str
    seed: int


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `Hang` if the block uses more processor time than ``seconds``."""

    def stop(*_: object) -> None:
        raise Hang

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


@contextmanager
def heard() -> Iterator[list[bytes]]:
    """What compiled libraries print to the terminal during the block."""
    printed: list[bytes] = []
    with tempfile.TemporaryFile() as file:
        sys.stdout.flush()
        sys.stderr.flush()
        before = [os.dup(1), os.dup(2)]
        try:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
            yield printed
        finally:
            for stream, old in zip((1, 2), before, strict=True):
                os.dup2(old, stream)
                os.close(old)
            file.seek(0)
            printed.append(file.read())


@cache
def calls() -> tuple[Public, ...]:
    """The calls with a table, then those without."""
    return (*public(), *plain())


@cache
def names() -> list[str]:
    """The package's internal names of columns."""
    return internal_names()


@cache
def expected(place: int) -> list[float]:
    """The answer of a call on the plain table."""
    call = calls()[place]
    return numbers(call.function(table(), **call.columns, **call.options))


def swept(seed: int) -> Outcome:
    """Draw a call and make it."""
    rng = np.random.default_rng(seed)
    tables, rest = len(public_names()), len(calls()) - len(public_names())
    place = int(rng.integers(tables) if rng.random() < 0.85 else tables + rng.integers(rest))
    call = calls()[place]
    if call.name == "from_json" and rng.random() < 0.8:
        document = json.loads(results()[rng.integers(len(results()))])
        text = _written(forms.tampered(rng, document))
        return _made(seed, call, "tampered", lambda: call.function(text), None, text[:100])
    if call.name == "Audit":
        config = forms.tampered(rng, dict(AUDIT))
        if rng.random() < 0.2:  # rows from a path without any
            path = forms.PATHS[rng.integers(len(forms.PATHS))]
            return _made(seed, call, "path", lambda: opened(path), None, repr(path[:100]))
        return _made(seed, call, "tampered", lambda: call.function(config), None, _shown({"config": config}))
    if call.name == "command line":
        arguments = commands.drawn(rng)
        return _made(seed, call, "command", lambda: commands.command(arguments), None, repr(arguments)[:300])
    if call.name == "init":
        return _made(seed, call, "init", lambda: commands.described(rng, names()), None, "")
    if place >= len(public_names()):
        return _argument(rng, seed, call, None)
    kinds: dict[str, Callable[[], Outcome]] = {
        "names": lambda: _same(rng, seed, place, "names"),
        "types": lambda: _same(rng, seed, place, "types"),
        "engine": lambda: _same(rng, seed, place, "engine"),
        "order": lambda: _same(rng, seed, place, "order"),
        "missing": lambda: _same(rng, seed, place, "missing"),
        "all": lambda: _same(rng, seed, place, "all"),
        "table": lambda: _broken(rng, seed, call),
        "argument": lambda: _argument(rng, seed, call, table()),
        "width": lambda: _width(rng, seed, call),
        "library": lambda: _same(rng, seed, place, "library"),
        "strange": lambda: _changed(rng, seed, call, forms.strange),
        "edges": lambda: _changed(rng, seed, call, forms.edges),
        "groups": lambda: _groups(rng, seed, call),
        "counts": lambda: _counts(seed, place),
        "designs": lambda: _designs(rng, seed, call),
    }
    fits = "y" in call.columns
    weights = np.array([3, 3, 1, 1, 1, 2, 4, 6, 3 * fits, 4, 2, 3, 3, 1 - fits, 2 - 2 * fits])
    return kinds[str(rng.choice(list(kinds), p=weights / weights.sum()))]()


@cache
def results() -> list[str]:
    """Stored results to tamper with."""
    return stored()


@cache
def public_names() -> tuple[str, ...]:
    """The calls with a table."""
    return tuple(call.name for call in public())


def _used(columns: Mapping[str, Any]) -> list[str]:
    return [name for value in columns.values() for name in ([value] if isinstance(value, str) else value)]


def _same(rng: np.random.Generator, seed: int, place: int, kind: str) -> Outcome:
    """A form of the table that must give the same answer."""
    call = calls()[place]
    data, columns, options = table(), dict(call.columns), dict(call.options)
    memory = "y" in call.columns  # estimators take tables in memory
    if kind == "missing" and not memory:
        # Counts are never missing, unknown groups may be, and each score has its own rows.
        shared = {"count": "k", "known": "c", "score": ["s", "r"]}
        roles = {role: name for role, name in columns.items() if shared.get(role) != name}
        data = forms.incomplete(rng, data, [name for name in _used(roles) if name not in call.shared])
        options |= {"missing": "drop", "missing_group": "drop"}
    if kind in ("order", "all") and not call.ordered:
        data = data[rng.permutation(len(data))]
    if kind in ("types", "all"):
        data = forms.typed(rng, data)
    if kind in ("names", "all"):
        data, mapping = forms.renamed(rng, data, names())
        columns = {
            role: mapping.get(value, value) if isinstance(value, str) else [mapping.get(v, v) for v in value]
            for role, value in columns.items()
        }
        if isinstance(relative := options.get("measure"), iso.relative):  # it names a column too
            options |= {"measure": replace(relative, baseline=mapping.get("b", "b"))}
    given = forms.engine(rng, data, memory=memory or call.ordered) if kind in ("engine", "all") else data
    if kind == "library":
        given = forms.library(rng, data, memory=memory or call.ordered)
    truth = expected(place)
    shown = {name: str(dtype) for name, dtype in data.schema.items() if name in _used(columns)}
    return _made(seed, call, kind, lambda: call.function(given, **columns, **options), truth, f"{type(given)} {shown}")


def _broken(rng: np.random.Generator, seed: int, call: Public) -> Outcome:
    data = forms.broken(rng, table(), _used(call.columns))
    if rng.random() < 0.3 and "y" not in call.columns:
        options = {**call.options, "missing": "drop", "missing_group": str(rng.choice(["drop", "level"]))}
    else:
        options = dict(call.options)
    return _made(seed, call, "table", lambda: call.function(data, **call.columns, **options), None, "")


def _changed(rng: np.random.Generator, seed: int, call: Public, change: Callable[..., Any]) -> Outcome:
    """Values, types or names that a call may refuse or answer."""
    given, columns, detail = change(rng, table(), dict(call.columns), memory="y" in call.columns)
    kind = change.__name__
    return _made(seed, call, kind, lambda: call.function(given, **columns, **call.options), None, detail)


def _groups(rng: np.random.Generator, seed: int, call: Public) -> Outcome:
    """Several columns, cuts and conditions as groups, some of which nobody meets."""
    groups = forms.groups(rng, memory="y" in call.columns)
    columns = {**call.columns, **({"groups": groups} if "groups" in call.columns else {})}
    return _made(seed, call, "groups", lambda: call.function(table(), **columns, **call.options), None, str(groups))


@cache
def _repeated(place: int) -> list[float]:
    """The answer of a call on a table with k copies of each row."""
    call = calls()[place]
    rows = table()[np.repeat(np.arange(len(table())), table()["k"].to_numpy())]
    return numbers(call.function(rows, **call.columns, **call.options))


def _counts(seed: int, place: int) -> Outcome:
    """A line that stands for k rows gives the answer of k rows."""
    call = calls()[place]
    truth = None if call.ordered or {"count", "weight"} & set(call.columns) else _repeated(place)
    options = {"count": "k", **call.columns, **call.options}
    return _made(seed, call, "counts", lambda: call.function(table(), **options), truth, "")


def _designs(rng: np.random.Generator, seed: int, call: Public) -> Outcome:
    """Counts, weights and clusters, which a call may refuse, of few values or with nothing in some rows."""
    data = table().with_columns(pl.when(pl.col("x") > rng.choice([0.0, 1.5, 3.0])).then(0).otherwise("k").alias("k"))
    roles = {"count": "k", "weight": str(rng.choice(["w", "k", "z", "d"])), "cluster": str(rng.choice(["u", "g", "f"]))}
    drawn = {role: roles[role] for role in rng.permutation(list(roles))[: int(rng.integers(1, 4))]}
    options = {**call.columns, **drawn, **call.options}
    return _made(seed, call, "designs", lambda: call.function(data, **options), None, str(drawn))


def _width(rng: np.random.Generator, seed: int, call: Public) -> Outcome:
    """An estimator with rows of another width."""
    rows = rows_of_numbers()
    given = forms.widths(rng, rows)
    return _made(seed, call, "width", lambda: fitted(call, rows).predict(given), None, f"{np.shape(given)}")


def _argument(rng: np.random.Generator, seed: int, call: Public, data: pl.DataFrame | None) -> Outcome:
    """One or two invalid arguments."""
    arguments = {**call.columns, **call.options}
    known = _parameters(call)
    changed = [str(name) for name in rng.permutation(known)[: 1 + int(rng.random() < 0.2)]]
    drawn = {name: forms.argument(rng, name, arguments) for name in changed}
    arguments |= drawn
    positional = () if data is None or "data" in arguments else (data,)
    return _made(
        seed,
        call,
        "argument",
        lambda: call.function(*positional, **arguments),
        None,
        f"{_shown(drawn)}",
        tuple(changed),
    )


def _written(document: Any) -> str:
    try:
        return json.dumps(document, default=str)
    except RecursionError:
        return "[" * 100_000


def _shown(drawn: Mapping[str, Any]) -> str:
    try:
        return repr(drawn)[:300]
    except Exception:
        return str(list(drawn))


def _parameters(call: Public) -> list[str]:
    # Names of the sweep's own.
    wrapped = {"y", "shares", "known", "place", "by", "pair"} & set(call.columns) or {"Monitor", "shrunk"} & {call.name}
    name = {"Monitor": "monitor", "shrunk": "flag"}.get(call.name, call.name.partition(",")[0])
    target = getattr(iso, name) if wrapped else call.function
    names = []
    for name, parameter in inspect.signature(target).parameters.items():
        shared = [other for other in hints(target) if other not in inspect.signature(target).parameters]
        names += shared if parameter.kind is parameter.VAR_KEYWORD else [name]
    taken = {"shares": ("groups",), "by": ("given",), "pair": ("models",), "Monitor": ("batch",)}
    own = [name for role in wrapped for name in taken.get(role, ())]
    return [name for name in names if name not in ("data", *own)]


def _made(
    seed: int,
    call: Public,
    kind: str,
    make: Callable[[], Any],
    truth: list[float] | None,
    detail: str,
    changed: tuple[str, ...] = (),
) -> Outcome:
    outcome = "right"
    try:
        with limited(LIMIT), heard() as printed, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = make()
            if isinstance(answer, iso.Evidence):
                answer.summary()
                answer.to_json()
                with suppress(iso.errors.NotEnoughData):  # small groups cannot be withheld: others need their numbers
                    published = answer.published(20)
                    published.to_json()
                    if seed % 8 == 0:
                        _explore(published)
            if seed % 8 == 0:
                _explore(answer)
        if b"illegal value" in printed[0]:  # LAPACK was given NaN
            outcome, detail = "wrong", f"{printed[0][:80]!r} {detail}"
        if truth is not None and not _close(numbers(answer), truth):
            outcome, detail = "wrong", f"{_difference(numbers(answer), truth)} {detail}"
    except iso.errors.IsonomyError as error:
        outcome = "error" if _names(error, call) else "unnamed"
        detail = f"{error} | {detail}"
        if truth is not None and kind in ("names", "order", "engine", "missing", "library"):
            outcome = "wrong"  # nothing is wrong with such a table
    except Hang:
        outcome = "hang"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "isonomy" in f.filename]
        at = f"{frames[-1].filename.partition('isonomy/')[2]}:{frames[-1].lineno}" if frames else "outside"
        outcome, detail = "traceback", f"{type(error).__name__} at {at}: {str(error)[:120]!r} | {detail}"
    return Outcome(call.name, kind, outcome, detail, seed)


def _explore(answer: Any) -> None:
    """Everything that a result offers without further arguments."""
    if not hasattr(answer, "table"):
        return
    for name in dir(type(answer)):
        method = getattr(type(answer), name)
        if name.startswith("_") or not inspect.isfunction(method):
            continue
        needed = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
        if len(needed) == 1:
            with suppress(iso.errors.IsonomyError):  # one that this call has nothing for
                shown = method(answer)
                if name == "plot" and CONTROL.search(json.dumps(shown.to_dict(), ensure_ascii=False)):
                    raise AssertionError("a chart has control characters, which end the process that draws it")


def _names(error: Exception, call: Public) -> bool:
    """Whether a message names the argument."""
    text = str(error)
    if call.name in ("Audit", "init"):
        return text.startswith(("audit", "data", "tests")) or "tests" in text or ":" in text
    known = {
        "data",
        "y",
        "X",
        "from_json",
        "cut",
        "where",
        "rng",
        "metric",
        "user",
        "Metric",
        "sample_weight",
        "probabilities",
        "known",
        "place",
        "prediction",
        "given",
        "shrunk",
        *ROLES,
        *_parameters(call),
    }
    head = text.partition(":")[0]
    return any(word in known for word in re.split(r"[\[(, ]", head))


def _close(actual: list[float], truth: list[float]) -> bool:
    return len(actual) == len(truth) and bool(np.allclose(actual, truth, rtol=1e-7, atol=1e-9, equal_nan=True))


def _difference(actual: list[float], truth: list[float]) -> str:
    if len(actual) != len(truth):
        return f"{len(actual)} numbers, not {len(truth)}"
    apart = ~np.isclose(actual, truth, rtol=1e-7, atol=1e-9, equal_nan=True)
    first = int(np.argmax(apart))
    return f"{apart.sum()} of {len(truth)} differ, number {first}: {actual[first]!r} is not {truth[first]!r}"


def sweep(seeds: range, seconds: float) -> Iterator[Outcome]:
    """The outcomes of the calls with these seeds, until the time is up."""
    end = time.monotonic() + seconds
    for seed in seeds:
        if time.monotonic() > end:
            return
        yield swept(seed)


def main() -> int:
    """Run the sweep, and print the counts by call and the failures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=16_000)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=0, help="the first of the seeds, one for each call")
    parser.add_argument("--only", type=int, help="one seed, with its traceback")
    asked = parser.parse_args()
    if asked.only is not None:
        print(swept(asked.only))
        return 0
    counts: Counter[tuple[str, str]] = Counter()
    for one in sweep(range(asked.seed, asked.seed + asked.calls), asked.seconds):
        counts[one.call, one.outcome] += 1
        if one.outcome in BAD:
            print(f"{one.outcome} seed {one.seed} {one.call} [{one.kind}] {one.detail[:400]}", flush=True)
    print(f"{'call':32}" + "".join(f"{outcome:>11}" for outcome in OUTCOMES))
    for call in calls():
        print(f"{call.name:32}" + "".join(f"{counts[call.name, outcome]:>11}" for outcome in OUTCOMES))
    totals = [sum(n for (_, o), n in counts.items() if o == outcome) for outcome in OUTCOMES]
    print(f"{sum(totals):<32}" + "".join(f"{total:>11}" for total in totals))
    return int(any(totals[OUTCOMES.index(outcome)] for outcome in BAD))


if __name__ == "__main__":
    sys.exit(main())
