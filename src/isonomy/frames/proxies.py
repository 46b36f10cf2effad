"""Groups known only by probability: what a caller says about them, and the sums over rows that estimates need.

Row i has the probabilities p of K groups, a value y where the metric's condition v holds, and a weight w. One pass sums
w, w p, w p p' and w p v y over all rows (by known group, where some are known). From these sums follow the estimates
and, for each of them, how a row influences it; a second pass sums powers of these influences, over rows or clusters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Any, Literal, NamedTuple

import narwhals as nw
import numpy as np

from isonomy import errors
from isonomy.errors import near, shown
from isonomy.frames.adapt import Lazy
from isonomy.frames.expressions import constant, either, missing, number
from isonomy.frames.groups import ROW_COUNT
from isonomy.frames.metrics import Measure
from isonomy.frames.source import Source
from isonomy.frames.sums import aggregate, collect, sums_at
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.options import check_fields

Named = Literal["bracket", "weighted", "linear", "names", "nothing", "validated"]
Assume = Named | float | tuple[float, float] | None
KnownRows = Literal["random", "other"] | None

GRID = (0.0, 0.25, 0.5, 0.75, 1.0)  # where a range of shares is checked
ROUNDED = 0.01 + 1e-9  # probabilities whose sum is off by no more are divided by their sum
EXACT = 1e-6  # sums in single precision are no farther from 1
# States of a row's probabilities: as they should be, rounded, missing, outside [0, 1], with another sum than 1.
GOOD, ROUGH, ABSENT, OUTSIDE, UNEQUAL = range(5)
NEGLIGIBLE = 1e-14  # coefficients of an influence, relative to the largest, that are rounding errors
KNOWN_ROWS = (
    'say "random" if the rows with a known group are a random sample of all rows (or weighted to be one), otherwise '
    '"other": they are then used to check the proxies, not to correct.'
)
UNKNOWN, MISNAMED = -1, -2  # codes of a row without a known group, and of a label that no group has


@dataclass(frozen=True, slots=True, eq=False)
class Proxy:
    """Groups that nobody recorded, known by probability: race from names and addresses, for example.

    `isonomy.flag` and `isonomy.adverse_impact` accept it as ``groups``. Probabilities are taken as calibrated: of the
    people with a probability of 0.3, three in ten are members. They must not have been computed with the outcome.

    How much of a disparity remains among people with the *same* probabilities cannot be learned from the rows. That
    share is called gamma, and every estimate needs an assumption about it.

    Parameters
    ----------
    name : str
        What these are groups of, such as ``"race"``. Groups are then called ``race=Black``.
    probabilities : mapping of str to str
        The column of probabilities of each group, such as ``{"White": "p_white", "Black": "p_black"}``. Each row sums
        to 1.
    other : str, optional
        The name of the group whose probability is 1 minus the sum of the columns.
    assume : {"bracket", "weighted", "linear", "names", "nothing", "validated"}, float or (float, float), optional
        ``"bracket"``: gamma is between 0 and 1, and a verdict must hold for every such share. ``"weighted"``: gamma is
        0, people with the same probabilities are treated alike, whatever their group. ``"linear"``: gamma is 1, members
        of the same group are treated alike, whatever their probabilities. A number is gamma, a pair its range.
        ``"names"``: members of the same group in the same ``place`` are treated alike, whatever their names.
        ``"nothing"``: no assumption, bounds only (0/1 metrics, differences). ``"validated"``: rows with a ``known``
        group correct the estimate. Default: "validated" if known rows are a random sample, otherwise "bracket".
    place : str, optional
        The column of the area that the probabilities were computed with; for "names" only.
    known : str, optional
        A column with the group where it is known, and null or empty elsewhere. It checks the probabilities; see
        ``result.calibration()``.
    known_rows : {"random", "other"}, optional
        Whether the rows with a known group are a random sample of all rows (or weighted to be one). Needed with
        ``known``. Other known rows check the probabilities and correct nothing.

    Examples
    --------
    >>> import isonomy as iso
    >>> iso.proxy("race", {"White": "p_white", "Black": "p_black"}, other="Other").groups
    ('White', 'Black', 'Other')
    """

    name: str
    probabilities: Mapping[str, str]
    _: KW_ONLY
    other: str | None = None
    assume: Assume = None
    place: str | None = None
    known: str | None = None
    known_rows: KnownRows = None

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "probabilities", {str(label): c for label, c in self.probabilities.items()})
        groups, columns, shares = self.groups, self.probabilities.values(), self.shares
        example = 'such as {"Black": "p_black", "White": "p_white"}'
        for argument, refused, why in (
            ("probabilities", not columns, f"none given; give a column of probabilities for each group, {example}."),
            ("probabilities", len(groups) < 2, 'one group; name the column of the other, or set other="...".'),
            ("probabilities", "" in groups, "'' is no name of a group."),
            ("other", len(set(groups)) < len(groups), f"{self.other!r} is among the groups already."),
            ("probabilities", len(set(columns)) < len(columns), f"{shown(self.probabilities)} names one column twice."),
            ("known_rows", self.known is not None and self.known_rows is None, KNOWN_ROWS),
            (
                "known_rows",
                self.known is None and self.known_rows is not None,
                f"{self.known_rows!r} has no effect without known; name the column of known groups, or leave it out.",
            ),
            ("place", self.place is not None and self.assume != "names", 'only assume="names" uses it; leave it out.'),
            ("assume", len(shares) > 1 and shares[0] > shares[-1], f"{self.assume}; give the smaller share first."),
            ("assume", min(shares, default=0.0) < -1, f"{self.assume} is not allowed; a share is at least -1."),
        ):
            if refused:
                raise errors.UsageError(f"{argument}: {why}")
        if self.assume == "names" and self.place is None:
            raise errors.MissingRole(
                'assume: "names" needs place, the column of the area that the probabilities were computed with.'
            )
        if self.assume == "validated" and not self.random:
            raise errors.MissingRole('assume: "validated" needs known, and known_rows="random".')

    def __str__(self) -> str:
        given = {name: getattr(self, name) for name in ("other", "assume", "place", "known", "known_rows")}
        more = "".join(f", {key}={value!r}" for key, value in given.items() if value is not None)
        return f"{self.name}, by probability {dict(self.probabilities)}{more}"

    def __repr__(self) -> str:
        return f"proxy({self})"

    @property
    def groups(self) -> tuple[str, ...]:
        """The labels, in the order of the call; the group without a column comes last."""
        return (*self.probabilities, *([] if self.other is None else [self.other]))

    @property
    def random(self) -> bool:
        return self.known is not None and self.known_rows == "random"

    @property
    def assumption(self) -> Named | Literal["share"]:
        """The assumption by its name; "share" for a number, or two."""
        if self.assume is None:
            return "validated" if self.random else "bracket"
        return self.assume if isinstance(self.assume, str) else "share"

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares of a disparity at which the assumption is checked; none if it is not about a share."""
        named: dict[str, tuple[float, ...]] = {"bracket": (0.0, 1.0), "weighted": (0.0,), "linear": (1.0,)}
        number = self.assumption == "share"
        ends = np.atleast_1d(np.asarray(self.assume if number else named.get(self.assumption, ()), dtype=float))
        return tuple(dict.fromkeys((ends[0] + (ends[-1] - ends[0]) * np.array(GRID)).tolist())) if ends.size else ()

    def check(self, source: Source) -> None:
        for column in self.probabilities.values():
            if column not in source.schema:
                raise errors.UnknownColumn("probabilities", column, source.schema)
            if not source.schema[column].is_numeric():
                raise errors.WrongType(
                    f"probabilities: column {column!r} is {source.schema[column]}; probabilities are numbers."
                )
        source.require(place=self.place, known=self.known)


proxy = Proxy


def proxy_of(groups: object) -> Proxy | None:
    listed = [groups] if isinstance(groups, Proxy) else list(groups) if isinstance(groups, (list, tuple)) else []
    proxies = [entry for entry in listed if isinstance(entry, Proxy)]
    if proxies and len(listed) > 1:
        raise errors.UsageError(
            f"groups: iso.proxy({proxies[0].name!r}) cannot be combined with other groups; give it alone. For the "
            "people of a known group, filter the rows."
        )
    return proxies[0] if proxies else None


# ---- the rows

PARTS = 3  # p is summed alone, times v and times e; then times the p of each group


@dataclass(frozen=True, eq=False)
class ProxyRows:
    """The rows of one metric with probabilities of groups: the means of the first pass, and later passes.

    ``means`` are those of p times (1, v, e, p') over all rows, by weight: first of rows without a known group, then of
    the members of each known group (the only line, if no group is known). e is v times y, less its mean ``center``. p
    sums to 1. ``rows`` counts the rows of each line, ``mass`` sums their weights, and ``people`` is the mean weight.
    ``stem`` begins the names of the columns added to ``source``.
    """

    source: Source
    stem: str
    proxy: Proxy
    measure: Measure
    means: FloatArray
    rows: FloatArray
    mass: float
    center: float
    people: float
    rounded: float
    dropped: Mapping[str, int]

    @property
    def size(self) -> int:
        return len(self.proxy.groups)

    @property
    def conditional(self) -> bool:
        return self.measure.expressions()[0] is not None

    @cached_property
    def frame(self) -> Lazy:
        """The complete rows: p0, p1, ..., v, e, w, n (a line's rows), w times n, and their keys."""
        source, reading = self.source, self.source.reading
        numbers = {name: f"{self.stem}{name}" for name in ("v", "y", *(f"p{k}" for k in range(self.size)))}
        used = {"w": reading["weight"], "n": reading["count"]}
        keys = {"cluster": source.cluster, "place": self.proxy.place}
        keys["known"] = f"{self.stem}known" if self.proxy.known else None
        frame = source.complete_rows(
            numbers | {name: column for name, column in used.items() if column is not None},
            {name: column for name, column in keys.items() if column is not None},
        )
        scale = 1.0 / self.people
        return frame.with_columns(
            (nw.col("y") - nw.col("v") * self.center).alias("e"),
            (constant(scale) if used["w"] is None else nw.col("w") * scale).alias("w"),
            (constant(1.0) if used["n"] is None else nw.col("n")).alias("n"),
            (nw.col(ROW_COUNT) * scale).alias("wn"),
        )

    @cached_property
    def known_frame(self) -> Lazy:
        return self.frame.filter(nw.col("known") >= 0)

    def spread(self, blocks: Sequence[FloatArray], *, known: bool = False) -> list[PowerSums]:
        """The spread of linear functions of p (1, v, e, p'), of rows or clusters, for each block of them.

        A line of a block has coefficients like ``means``. Those of (v, e, p') are of low rank: a block has one factor,
        or a few, and each line is a product of p with these.
        """
        p = [nw.col(f"p{k}") for k in range(self.size)]
        columns, factors = [nw.col("v"), nw.col("e"), *p], dict[str, nw.Expr]()
        influences: list[nw.Expr | None] = []  # None: no influence, as of a reference compared with itself
        for block in (np.nan_to_num(block, posinf=0.0, neginf=0.0) for block in blocks):
            matrix = block[..., 1:].reshape(-1, block.shape[-1] - 1)
            scale = np.maximum(np.abs(matrix).max(0), np.finfo(float).tiny)
            _, size, right = np.linalg.svd(matrix / scale, full_matrices=False)
            right = right[size > NEGLIGIBLE * size[0]]
            names = [f"factor {len(factors) + r}" for r in range(len(right))]
            factors |= {name: _dot(columns, scale * row) for name, row in zip(names, right, strict=True)}
            for line in np.concatenate([block[..., :1], (block[..., 1:] / scale) @ right.T], axis=-1):
                terms = [_form(p, line[0], names)] if line[0].any() else []
                for k, more in enumerate(line[1:] - line[0]):
                    if more.any():
                        terms.append(either(nw.col("known") == k, 1.0, 0.0) * _form(p, more, names))
                influences.append(reduce(add, terms) if terms else None)
        frame = self.known_frame if known else self.frame
        units, *sums = self.powers(influences, frame.with_columns(**factors) if factors else frame)
        ends = np.cumsum([len(block) for block in blocks])[:-1]
        return [PowerSums(units, *part) for part in np.split(np.array(sums), ends, axis=1)]

    def powers(self, influences: Sequence[nw.Expr | None], frame: Lazy) -> PowerSums:
        """Sums of powers of w psi over rows, or over clusters."""
        weight, times = nw.col("w") * (1.0 / self.mass), nw.col("n")
        psi = {f"psi {i}": value * weight for i, value in enumerate(influences) if value is not None}
        if not psi:
            return PowerSums(np.nan, *np.zeros((3, len(influences))))
        if self.source.cluster is None:
            staged = frame.with_columns(**psi)
        else:
            total = {name: value * times for name, value in psi.items()}
            staged, times = aggregate(frame, {"cluster": nw.col("cluster")}, total), constant(1.0)
        staged = staged.with_columns(*((nw.col(name) * nw.col(name)).alias(f"{name} squared") for name in psi))
        sums = dict[str, nw.Expr]()
        for name in psi:
            square = nw.col(f"{name} squared")
            sums |= {f"2 {name}": square, f"4 {name}": square * square}
            if not self.measure.binary:  # rates have no gate for skewness
                sums[f"3 {name}"] = square * nw.col(name)
        if self.source.count is not None:
            sums = {name: value * times for name, value in sums.items()}
        table, lines = sums_at(staged, {}, sums | {"units": times}), range(len(influences))
        powers = [[float(table.get(f"{k} psi {i}", 0.0)) for i in lines] for k in (2, 3, 4)]
        return PowerSums(float(table["units"]), *np.array(powers))

    def factors(self, mean: FloatArray) -> FloatArray:
        """The slope of 1 e on p e among known rows, e = v (y - mean), for each group."""
        values, w = {"w": nw.col("wn")}, nw.col("wn")
        for k in range(self.size):
            stated = nw.col(f"p{k}") * (nw.col("e") - nw.col("v") * float(mean[k]))
            member = either(nw.col("known") == k, nw.col("e") - nw.col("v") * float(mean[k]), 0.0)
            products = {"me": member, "pe": stated, "both": member * stated, "square": stated * stated}
            values |= {f"{k} {name}": w * product for name, product in products.items()}
        sums = sums_at(self.known_frame, {}, values)
        me, pe, both, square = (
            np.array([float(sums[f"{k} {name}"]) for k in range(self.size)]) / float(sums["w"])
            for name in ("me", "pe", "both", "square")
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            return (both - me * pe) / (square - pe**2)

    def by_place(self) -> tuple[FloatArray, IntArray]:
        """Sums by place, over the mass of all rows, and the number of the place's cluster."""
        cluster, w = self.source.cluster, nw.col("wn")
        keys = {"place": nw.col("place")} | ({} if cluster is None else {"cluster": nw.col("cluster")})
        products = _products([nw.col(f"p{k}") for k in range(self.size)], nw.col("v"), nw.col("e"))
        values = {name: product * w for name, product in products.items()} | {"n": nw.col("n")}
        table = collect(aggregate(self.frame, keys, values))
        places = table["place"].n_unique()
        if places < len(table):
            raise errors.UsageError(
                f"cluster: a place has several clusters ({cluster!r}), and assume='names' measures errors between "
                "places. Leave it out, or give clusters of whole places."
            )
        if float(table["n"].max()) <= 1:  # type: ignore[arg-type]
            raise errors.NotEnoughData(
                f"place: {self.proxy.place!r} has one row in each of {places:,} values; compare within larger areas."
            )
        codes = np.arange(len(table)) if cluster is None else table["cluster"].rank("dense").to_numpy() - 1
        return _stacked(table.to_dict(), self.size) / self.mass, codes.astype(np.intp)

    def _bin(self, group: int, bins: int) -> nw.Expr:
        return (nw.col(f"p{group}") * float(bins)).floor().clip(0, bins - 1).cast(nw.Int64)

    def bounds(self, bins: int, reference: int) -> tuple[FloatArray, PowerSums]:
        """The smallest and the largest disparity of 0/1 values (2 x groups), and their spread in that order.

        In a bin of a group's probability, as many of its members as possible are those with y = 1 (the largest rate),
        or those with y = 0. The reference, a group or -1 for the population, has the opposite bound.
        """
        w, v, y = nw.col("wn"), nw.col("v"), nw.col("e") + nw.col("v") * self.center
        rates, staged = np.zeros((2, self.size)), dict[str, nw.Expr]()
        for k in range(self.size):
            p, place = nw.col(f"p{k}"), self._bin(k, bins)
            sums = sums_at(self.frame, {"bin": (place, bins)}, {"w": w, "p": w * p, "1": w * y, "0": w * (v - y)})
            outside = sums["w"] - sums["1"] - sums["0"]
            for side, kind, expr in ((0, sums["0"], v - y), (1, sums["1"], y)):
                first = np.minimum(sums["p"], kind)
                left = sums["p"] - outside - first
                # Rows add p where the group fills the kind, and p - (1 - v) less that where others remain.
                chosen = either(place.is_in(np.flatnonzero(sums["p"] <= kind).tolist()), p, expr)
                others = either(place.is_in(np.flatnonzero(left > 0).tolist()), p - (1.0 - v) - chosen, 0.0)
                total = float(first.sum() + np.maximum(left, 0.0).sum())
                share = float(first.sum()) / total if total else float("nan")
                rates[side, k] = share if side else 1.0 - share
                psi = (chosen - (chosen + others) * share) * (self.mass / total if total else 0.0)
                staged[f"{side} {k}"] = psi if side else -psi
        staged["everybody"] = nw.col("e") * (1.0 / float(self.means[..., 1].sum()))
        opposite = np.full((2, 1), self.center) if reference < 0 else rates[::-1, [reference]]
        other = [nw.col("everybody" if reference < 0 else f"{1 - side} {reference}") for side in (0, 1)]
        influences = [nw.col(f"{side} {k}") - other[side] for side in (0, 1) for k in range(self.size)]
        return rates - opposite, self.powers(influences, self.frame.with_columns(**staged))

    def known_by_bin(self, bins: int) -> FloatArray:
        """Of known rows, by bin of a group's probability and by group: their number, the stated and observed share."""
        table, w = np.zeros((4, bins, self.size)), nw.col("wn")
        for k in range(self.size):
            member = either(nw.col("known") == k, 1.0, 0.0)
            values = {"n": nw.col("n"), "w": w, "p": w * nw.col(f"p{k}"), "m": w * member}
            sums = sums_at(self.known_frame, {"bin": (self._bin(k, bins), bins)}, values)
            table[:, :, k] = [sums[name] for name in values]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.array([table[0], table[2] / table[1], table[3] / table[1]])


class PowerSums(NamedTuple):
    """Sums of powers of influences over ``units``, rows or clusters: the law of `isonomy.inference.designs`."""

    units: float
    second: FloatArray
    third: FloatArray
    fourth: FloatArray

    @property
    def variance(self) -> FloatArray:
        return self.second * (self.units / (self.units - 1.0) if self.units > 1 else np.nan)

    @property
    def df(self) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.fourth > 0, self.second**2 / self.fourth - 1.0, np.nan)


def _form(p: Sequence[nw.Expr], line: FloatArray, factors: Sequence[str]) -> nw.Expr:
    """p'line times (1, factors), summed; p sums to 1, so that equal coefficients need no p."""
    terms = [_dot(p[1:], weights[1:] - weights[0], float(weights[0])) for weights in line.T]
    return reduce(add, (term * nw.col(factor) for term, factor in zip(terms[1:], factors, strict=True)), terms[0])


def _dot(columns: Sequence[nw.Expr], weights: FloatArray, start: float = 0.0) -> nw.Expr:
    least = NEGLIGIBLE * max(float(np.abs(weights).max(initial=0.0)), abs(start))
    terms = [column * float(weight) for column, weight in zip(columns, weights, strict=True) if abs(weight) > least]
    return reduce(add, terms) + start if terms else constant(start)


# ---- the first pass


def _products(p: Sequence[nw.Expr], v: nw.Expr, y: nw.Expr) -> dict[str, nw.Expr]:
    """Each group's p, p v, p y, and p times the p of the groups up to it."""
    named = {
        f"{k}{name}": pk if part is None else pk * part
        for k, pk in enumerate(p)
        for name, part in (("", None), (" v", v), (" y", y))
    }
    return named | {f"{k} {m}": p[k] * p[m] for k in range(len(p)) for m in range(k + 1)}


def _stacked(sums: Mapping[str, Any], size: int) -> FloatArray:
    """Sums of `_products` by line, group, and (1, v, y, each group's p)."""
    names = [[f"{k}", f"{k} v", f"{k} y", *(f"{max(k, m)} {min(k, m)}" for m in range(size))] for k in range(size)]
    return np.moveaxis(np.array([[np.asarray(sums[name]) for name in line] for line in names]), 2, 0)


def _staged(source: Source, proxy: Proxy, measure: Measure, stem: str) -> Source:
    """The table with p of each group, v, y, the state of a row's probabilities, and the code of a known group."""
    columns = list(proxy.probabilities.values())
    raw, rest = [number(column) for column in columns], proxy.other is not None
    total = reduce(add, raw)
    off = total - 1.0 if rest else (total - 1.0).abs()
    outside = nw.any_horizontal(*((column < 0) | (column > 1) for column in raw), ignore_nulls=True)
    absent = nw.any_horizontal(*(missing(nw.col(c), source.schema[c]) for c in columns), ignore_nulls=True)
    state: nw.Expr = nw.when(off > EXACT).then(nw.lit(ROUGH)).otherwise(nw.lit(GOOD))
    for condition, kind in ((off > ROUNDED, UNEQUAL), (outside, OUTSIDE), (absent, ABSENT)):
        state = nw.when(condition).then(nw.lit(kind)).otherwise(state)
    inside, value = measure.expressions()  # null where a column is missing
    v = constant(1.0) if inside is None else number(inside)
    staged = {"state": state, "v": v, "y": value if inside is None else v * value}
    staged["total"] = either(total > 1.0, total, 1.0) if rest else total
    if proxy.known is not None:
        label, code = nw.col(proxy.known).cast(nw.String), nw.lit(MISNAMED)
        for k, group in ((UNKNOWN, ""), *enumerate(proxy.groups)):
            code = nw.when(label == group).then(nw.lit(k)).otherwise(code)
        staged["known"] = nw.when(label.is_null()).then(nw.lit(UNKNOWN)).otherwise(code)
    whole = nw.col(f"{stem}total")
    p = [column / whole for column in raw] + ([(whole - total) / whole] if rest else [])
    named = {f"{stem}{name}": column for name, column in staged.items()}
    return source.with_columns(named).with_columns({f"{stem}p{k}": part for k, part in enumerate(p)})


def read_proxies(source: Source, proxy: Proxy, measure: Measure) -> ProxyRows:
    stem, size = source.fresh("proxy "), len(proxy.groups)
    staged = _staged(source, proxy, measure, stem)
    column = {name: nw.col(f"{stem}{name}") for name in ("state", "v", "y", "known")}
    keys = {name: column[name] for name in ("state", "known") if name == "state" or proxy.known}
    products = _products([nw.col(f"{stem}p{k}") for k in range(size)], column["v"], column["y"])
    labels = {"place": proxy.place} if proxy.place else {}
    sample = staged.cells(replace(measure.request, keys=keys, values=products, labels=labels))
    measure.refuse_absent(sample)
    state, dropped = np.asarray(sample.columns["state"]), dict(sample.dropped)
    rows_in = {kind: float(sample.counts[state == kind].sum()) for kind in range(5)}
    _refuse_states(source, proxy, rows_in)
    if rows_in[ABSENT]:
        dropped["probabilities"] = round(rows_in[ABSENT])
    lines = state <= ROUGH
    known = np.asarray(sample.columns["known"])[lines] if proxy.known else np.full(int(lines.sum()), UNKNOWN)
    if (known == MISNAMED).any():
        labeled = staged.frame.filter(column["known"] == MISNAMED).select(nw.col(str(proxy.known)).cast(nw.String))
        label = str(collect(labeled.head(1)).item(0, 0))
        groups = f"{near(label, proxy.groups)} Groups: {', '.join(proxy.groups)}."
        raise errors.UsageError(f"known: {label!r} is not a group of the proxy.{groups}")
    sums = _stacked({name: values[lines] for name, values in sample.values.items()}, size)
    means, rows = np.zeros((size + 1 if proxy.known else 1, *sums.shape[1:])), np.zeros(size + 1 if proxy.known else 1)
    np.add.at(means, known + 1, sums)
    np.add.at(rows, known + 1, sample.counts[lines])
    mass, inside_mass, total = means.sum((0, 1))[:PARTS]
    if not inside_mass > 0:
        raise errors.NotEnoughData(f"metric: no row meets the condition of {measure.name!r}.")
    center = float(total / inside_mass)
    means[..., 2] -= center * means[..., 1]
    people = 1.0 if sample.design is None else sample.design.people
    return ProxyRows(
        staged, stem, proxy, measure, means / mass, rows, float(mass), center, people, rows_in[ROUGH], dropped
    )


def _refuse_states(source: Source, proxy: Proxy, rows: Mapping[int, float]) -> None:
    for column in proxy.probabilities.values() if rows[OUTSIDE] else ():
        ends = source.extremes(number(column), {})
        low, high = float(ends["low"][0]), float(ends["high"][0])
        if low < 0 or high > 1:
            percent = " If they are percentages, divide by 100." if low >= 0 and 2 <= high <= 100 else ""
            raise errors.OutOfRange(
                f"probabilities: column {column!r} has values from {low:g} to {high:g}; probabilities lie between 0 "
                f"and 1.{percent}"
            )
    if rows[UNEQUAL] and proxy.other is not None:
        raise errors.DataError(
            f"probabilities: those of {rows[UNEQUAL]:,.0f} rows sum to more than 1; nothing is left for "
            f"other={proxy.other!r}."
        )
    if rows[UNEQUAL]:
        total = source.extremes(reduce(add, map(number, proxy.probabilities.values())), {})
        raise errors.DataError(
            f"probabilities: those of {rows[UNEQUAL]:,.0f} rows do not sum to 1 ({total['low'][0]:.2f} to "
            f"{total['high'][0]:.2f}). Divide them by their sum, add the missing group's column, or name it: "
            'other="Other".'
        )
    if rows[ABSENT] and source.missing == "raise":
        raise errors.MissingValues(
            f"probabilities: {rows[ABSENT]:,.0f} rows have none (name or address not found). "
            'missing="drop" leaves them out: the result is then about people whose name and address were found.'
        )
    if not rows[GOOD] + rows[ROUGH]:
        raise errors.EmptyFrame("data: no row is left after dropping those with missing values.")
