"""Design effects: the same tests where rows have weights, or belong together in clusters.

A test that takes rows as independent has a statistic T, chi-square with one degree of freedom, and a variance of its
contrast that it assumes. With weights or clusters

1. means and T are computed from the masses of a `Design` (weights scaled to sum to the rows);
2. the contrast is linearised: every line has an `Influence` on it, per unit of mass;
3. S_c is the sum of mass times influence over cluster c (over each row, where there are no clusters);
4. the design effect is [C / (C - 1) sum S_c^2] / [the variance T assumes], and T over it is held against F(1, nu), with
   nu = (sum S_c^2)^2 / sum S_c^4 - 1: the number of clusters that the variance really rests on, less one.

(Rao and Scott 1981; Wu and Rao 2006, pseudo-empirical likelihood.) A method computes its estimates from masses, says
what influence each line has, and asks `spread` once; `Law` then turns T into a chi-square equivalent and a
chi-square's critical value into T's, so that hypotheses, intervals and adjustments need to know nothing of designs.

    totals = spread(design, Influence.of(lines_by_contrasts))     # or own part by group and a shared base
    law = totals.law(assumed_variance)
    law.chi_square(T)            p-values: chi2_sf(law.chi_square(T), 1)
    law.critical(chi2_isf(...))  intervals: where T reaches it

A group below `FEWEST` effective clusters, (sum of masses)^2 / (sum of squared masses), is listed with
`Status.FEW_CLUSTERS` and not tested.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from functools import partial

import numpy as np
import numpy.typing as npt
from scipy import sparse, special

from isonomy.frames import Grouping, Request, Source
from isonomy.frames.design import Design, Matrix
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.tails import chi2_isf, chi2_sf, t_isf

# Below this effective number of clusters the spread between them is too uncertain to test by.
FEWEST = 10.0
# Below this tail probability t is taken to its normal equivalent by Wallace's formula: the tail itself underflows.
SMALLEST = 1e-280
# Contrasts, and lines by contrasts, up to which sums over clusters are those of dense columns.
CONTRASTS, DENSE = 64, 1_000_000


class Overlap(Enum):
    """How many of the groups' own lines are the reference's too."""

    NONE, PARTLY, WHOLE = "none", "partly", "whole"


@dataclass(frozen=True, slots=True, eq=False)
class Influence:
    """What one unit of mass in a line adds to each contrast: ``own[line, contrast] + base[line] @ loading``.

    ``own`` is sparse, as a line is in few groups: its entries are there for the members of a group, even where they are
    0, and have the imaginary part 1 to mark them. ``base`` is what the lines add to every contrast through a common
    reference, and ``reached`` says which lines belong to it.
    """

    own: Matrix
    base: FloatArray
    loading: FloatArray
    reached: BoolArray

    @classmethod
    def of(cls, values: FloatArray, members: BoolArray | None = None) -> Influence:
        """One column per contrast; ``members`` are the lines it is about (all, if None)."""
        values = values[:, None] if values.ndim == 1 else values
        marks = np.ones(values.shape) if members is None else members.reshape(values.shape).astype(float)
        lines, contrasts = values.shape
        own = sparse.csr_array(values + 1j * marks)
        return cls(own, np.zeros((lines, 0)), np.zeros((0, contrasts)), np.zeros(lines, dtype=bool))

    @classmethod
    def of_groups(
        cls,
        codes: IntArray,
        values: FloatArray,
        groups: int,
        base: FloatArray | None = None,
        loading: FloatArray | None = None,
        reached: BoolArray | None = None,
    ) -> Influence:
        """Disjoint groups: ``codes`` has the group of each line (-1: none), ``values`` its influence on that group."""
        lines = np.flatnonzero(codes >= 0)
        own = sparse.csr_array((values[lines] + 1j, (lines, codes[lines])), shape=(codes.size, groups))
        return cls(
            own,
            np.zeros((codes.size, 0)) if base is None else base,
            np.zeros((0, groups)) if loading is None else loading,
            np.zeros(codes.size, dtype=bool) if reached is None else reached,
        )

    @classmethod
    def together(cls, parts: Sequence[Influence], chosen: BoolArray) -> Influence:
        """The ``chosen`` contrasts of several, which share a base, one after the other."""
        own = sparse.csr_array(sparse.csc_array(sparse.hstack([part.own for part in parts]))[:, np.flatnonzero(chosen)])
        loading = np.hstack([part.loading for part in parts])[:, chosen]
        return cls(own, parts[0].base, loading, parts[0].reached)

    @property
    def own_lines(self) -> IntArray:
        """The line of each entry of ``own``."""
        return np.repeat(np.arange(self.own.shape[0]), np.diff(self.own.indptr))

    @property
    def overlap(self) -> Overlap:
        """Whether the lines of the groups are the reference's too."""
        among = self.reached[self.own_lines]
        return Overlap.PARTLY if among.any() != among.all() else Overlap.WHOLE if among.any() else Overlap.NONE

    def dense(self) -> FloatArray:
        """All of it, lines by contrasts; for few of either."""
        return np.asarray(self.own.toarray().real) + self.base @ self.loading


@dataclass(frozen=True, slots=True, eq=False)
class DesignEffect:
    """How weights and clusters act on each contrast, as a result tells it."""

    effect: FloatArray
    clusters: FloatArray
    effective: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """What T is held against: F(1, ``df``) after division by ``effect``, the design effect."""

    effect: FloatArray
    df: FloatArray

    def at(self, index: IntArray) -> Law:
        """The law of some of the contrasts."""
        return Law(self.effect[index], self.df[index])

    def chi_square(self, statistic: npt.ArrayLike) -> FloatArray:
        """The chi-square with one degree of freedom that is as far out as T is under this law."""
        square = np.asarray(statistic, dtype=float) / self.effect
        with np.errstate(all="ignore"):
            tail = 2.0 * special.stdtr(self.df, -np.sqrt(square))
            # Wallace (1959): z = (8 df + 1) / (8 df + 3) sqrt(df log(1 + t^2 / df)).
            far = ((8 * self.df + 1) / (8 * self.df + 3)) ** 2 * self.df * np.log1p(square / self.df)
            near = np.asarray(chi2_isf(np.maximum(tail, SMALLEST), 1))
        value = np.where(tail > SMALLEST, near, np.maximum(far, chi2_isf(SMALLEST, 1)))
        return np.where(np.isposinf(square), np.inf, np.where(np.isnan(square), np.nan, value))

    def critical(self, chi_square: npt.ArrayLike) -> FloatArray:
        """The T that is as far out under this law as ``chi_square`` is under the chi-square."""
        tail = np.asarray(chi2_sf(chi_square, 1))
        return self.effect * t_isf(tail / 2, self.df) ** 2


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Sums over clusters for each contrast: of S^2 and S^4, of the masses of its own lines and their squares.

    ``own`` is how many clusters the contrast's own lines are in, ``clusters`` how many with those of the reference;
    ``others`` and ``squared_others`` are the masses of the reference's lines that are not the contrast's own.
    """

    second: FloatArray
    fourth: FloatArray
    mass: FloatArray
    squared_mass: FloatArray
    own: FloatArray
    clusters: FloatArray
    others: FloatArray
    squared_others: FloatArray

    @classmethod
    def together(cls, spreads: Sequence[Spread]) -> Spread:
        """The contrasts of several, one after the other."""
        return cls(*(np.concatenate([getattr(each, field.name) for each in spreads]) for field in fields(cls)))

    @property
    def variance(self) -> FloatArray:
        """The variance of each contrast."""
        with np.errstate(all="ignore"):
            return np.where(self.clusters > 1, self.clusters / (self.clusters - 1), np.nan) * self.second

    @property
    def effective(self) -> FloatArray:
        """How many clusters of equal mass the contrast's own lines are worth, or those of its reference, if fewer."""
        with np.errstate(all="ignore"):
            beside = np.where(self.others > 0, self.others**2 / self.squared_others, np.inf)
            return np.minimum(self.mass**2 / self.squared_mass, beside)

    @property
    def df(self) -> FloatArray:
        """Degrees of freedom of each variance: the number of clusters it really rests on, less one."""
        with np.errstate(all="ignore"):
            return np.maximum(np.nan_to_num(self.second**2 / self.fourth) - 1.0, 1e-3)

    def effect(self, law: Law) -> DesignEffect:
        """What the reader is told."""
        return DesignEffect(law.effect, self.own, self.effective)

    def law(self, assumed: FloatArray, *, constant: BoolArray | None = None) -> Law:
        """The law of T, which assumes these variances.

        A group that is ``constant`` shows no spread between its clusters: each of them is then taken as one row.
        """
        with np.errstate(all="ignore"):
            effect, df = self.variance / assumed, self.df
            if constant is not None:
                effect = np.where(constant, self.squared_mass / self.mass, effect)
                df = np.where(constant, self.mass**2 / self.squared_mass - 1.0, df)
        return Law(effect, np.maximum(df, 1e-3))


def spread(design: Design, influence: Influence) -> Spread:
    """Sums over clusters, or over rows that are clusters of their own."""
    return _summed(design, influence).spread()


def clusters_of(source: Source, grouping: Grouping, everybody: str = "") -> tuple[tuple[str, int, float], ...]:
    """Of each group that has a name and a row with everything the design needs: its clusters, and how many of equal
    mass they are worth. All rows come first, where they have a name too: ``everybody``."""
    cells = source.reread(missing="drop", missing_group="drop").cells(Request(grouping))
    assert cells.design is not None
    lines = cells.size
    parts = [(part.codes, [group.label for group in part.groups]) for part in cells.partitions]
    clusters: list[tuple[str, int, float]] = []
    for codes, labels in [(np.zeros(lines, dtype=np.intp), [everybody]), *parts] if everybody else parts:
        totals = spread(cells.design, Influence.of_groups(codes, np.zeros(lines), len(labels)))
        numbers = zip(labels, totals.own, totals.effective, strict=True)
        clusters += [(label, round(float(own)), float(worth)) for label, own, worth in numbers if own]
    return tuple(clusters)


def covariance(design: Design, influence: Influence) -> FloatArray:
    """The covariance matrix of all contrasts: the sum over clusters of S S', times C / (C - 1)."""
    totals = _summed(design, influence, products=True)
    assert totals.products is not None
    number = totals.touched
    return totals.products * number / (number - 1.0) if number > 1 else np.full_like(totals.products, np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """The sums over clusters behind a `Spread`, by name; and behind a covariance, where asked for.

    ``touched`` is the number of clusters of all contrasts together.
    """

    of: Mapping[str, FloatArray]
    touched: float
    products: FloatArray | None

    @classmethod
    def total(cls, parts: Iterable[_Sums]) -> _Sums:
        """Those of all parts."""
        result: _Sums | None = None
        for part in parts:
            result = part if result is None else result.plus(part)
        assert result is not None
        return result

    def plus(self, other: _Sums) -> _Sums:
        """Those of two parts."""
        products = None if self.products is None or other.products is None else self.products + other.products
        return _Sums({name: self.of[name] + other.of[name] for name in self.of}, self.touched + other.touched, products)

    def at(self, index: IntArray) -> _Sums:
        """Those of some of the contrasts."""
        products = None if self.products is None else self.products[np.ix_(index, index)]
        return _Sums({name: values[index] for name, values in self.of.items()}, self.touched, products)

    def spread(self) -> Spread:
        """As a result tells them."""
        of = self.of
        beside = np.where(of["others"] > 1e-9 * of["others"].max(initial=0.0), of["others"], 0.0)
        return Spread(
            np.maximum(of["second"], 0.0),
            np.maximum(of["fourth"], 0.0),
            of["mass"],
            of["squared"],
            of["own"],
            of["clusters"],
            beside,
            np.maximum(of["squared_others"], 0.0),
        )


def _summed(design: Design, influence: Influence, *, products: bool = False) -> _Sums:
    """All sums over clusters; those of few lines and contrasts are remembered."""
    lines, contrasts = influence.own.shape
    if design.clusters is None:
        return _entry_sums(_lines_alone(design, influence), influence, products=products)
    if contrasts > CONTRASTS or lines * contrasts > DENSE:
        parts = design.clusters.each(partial(_clusters_of, placed=_placed(design, influence)))
        return _Sums.total(_entry_sums(part, influence, products=products) for part in parts)
    columns = _columns(design, influence)
    keys = [hashlib.sha256(column.tobytes()).digest() for column in columns.by_contrast()]
    for known, sums in design.clusters.remembered:
        if all(key in known for key in keys):
            return sums.at(np.array([known[key] for key in keys], dtype=np.intp))
    sums = _Sums.total(design.clusters.each(partial(_column_sums, columns=columns, overlap=influence.overlap)))
    design.clusters.remembered.append(({key: i for i, key in enumerate(keys)}, sums))
    return sums


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """By line: whether it is the reference's, S of each contrast, its own masses, and those of them in the reference.

    The last are there only where some own lines are the reference's, and some are not.
    """

    every: FloatArray
    contrasts: int

    def by_contrast(self) -> Iterator[FloatArray]:
        """What the sums of each contrast depend on."""
        for i in range(self.contrasts):
            yield self.every[:, [0, i + 1, i + 1 + self.contrasts]]


def _columns(design: Design, influence: Influence) -> _Columns:
    own = influence.own.toarray()
    reached = influence.reached.astype(float)[:, None]
    values = own.real + influence.base @ influence.loading
    common = [own.imag * reached] if influence.overlap is Overlap.PARTLY else []
    every = np.hstack([reached, values, own.imag, *common])
    return _Columns(every if design.placed is None else design.placed @ every, own.shape[1])


def _column_sums(matrix: Matrix, columns: _Columns, overlap: Overlap) -> _Sums:
    """The sums over the clusters of one matrix: in products of matrices, which are quick."""
    totals, contrasts = matrix @ columns.every, columns.contrasts
    value, mass = (slice(1 + i * contrasts, 1 + (i + 1) * contrasts) for i in range(2))
    ones, products = np.ones(len(totals)), totals.T @ totals
    squares, total = np.diagonal(products), ones @ totals
    fourth = totals[:, value] ** 2
    fourth *= fourth
    present, reached = totals[:, mass] > 0, totals[:, 0] > 0
    common = squared_common = both = np.zeros(contrasts)
    if overlap is not Overlap.NONE:
        where = mass if overlap is Overlap.WHOLE else slice(1 + 2 * contrasts, None)
        common, squared_common, both = total[where], squares[where], products[0, where]
    own = ones @ present
    within = own if overlap is Overlap.WHOLE else ones[reached] @ present[reached]
    of = {
        "second": squares[value],
        "fourth": ones @ fourth,
        "mass": total[mass],
        "squared": squares[mass],
        "own": own,
        "clusters": own + float(reached.sum()) - within,
        "others": total[0] - common,
        "squared_others": products[0, 0] - 2.0 * both + squared_common,
    }
    touched = float((reached if overlap is Overlap.WHOLE else reached | present.any(1)).sum())
    return _Sums(of, touched, products[value, value])


def _entry_sums(part: _Part, influence: Influence, *, products: bool) -> _Sums:
    """The sums over clusters of which most are in few of many contrasts' own lines."""
    loading, contrasts = influence.loading, influence.own.shape[1]
    moment = part.base.T @ (part.square[:, None] * part.base)
    # The fourth power of base @ loading, from the sums of products of four columns of the base.
    pairs = (part.base[:, :, None] * part.base[:, None, :]).reshape(len(part.base), -1)
    quartic = pairs.T @ (part.fourth[:, None] * pairs)
    both = np.einsum("ig,jg->ijg", loading, loading).reshape(pairs.shape[1], contrasts)
    entries = part.own.tocoo()
    rows, columns, values = entries.row, entries.col, entries.data
    common = _shared_mass(part, influence.overlap)
    shared = np.einsum("ei,ie->e", part.base[rows], loading[:, columns])
    total, beside = values.real + shared, part.beside[rows]

    def over(each: FloatArray) -> FloatArray:
        return np.bincount(columns, weights=each, minlength=contrasts).astype(float)

    of = {
        "second": np.einsum("ig,ij,jg->g", loading, moment, loading) + over(part.square[rows] * (total**2 - shared**2)),
        "fourth": np.einsum("ig,ij,jg->g", both, quartic, both) + over(part.fourth[rows] * (total**4 - shared**4)),
        "mass": over(part.first[rows] * values.imag),
        "squared": over(part.square[rows] * values.imag**2),
        "own": over(part.number[rows] * (values.imag > 0)),
        "clusters": float(part.number[part.reached].sum()) + over(part.number[rows] * ~part.reached[rows]),
        "others": float(part.first @ part.beside) - over(part.first[rows] * common),
        "squared_others": float(part.square @ part.beside**2)
        + over(part.square[rows] * ((beside - common) ** 2 - beside**2)),
    }
    touched = part.reached | (np.diff(part.own.indptr) > 0)
    crossed = None
    if products:
        own = sparse.csr_array((part.own.data.real, part.own.indices, part.own.indptr), shape=part.own.shape)
        scaled = sparse.diags_array(part.square) @ own
        cross = np.asarray(scaled.T @ part.base) @ loading
        crossed = (own.T @ scaled).toarray() + cross + cross.T + loading.T @ moment @ loading
    return _Sums(of, float(part.number[touched].sum()), crossed)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Clusters (or lines of rows that are clusters of their own) with their S, before it is raised to a power.

    ``beside`` is the mass of the reference in each, ``common`` as `_common` says; ``first``, ``square``, ``fourth`` say
    what a unit of S, S^2 and S^4 counts, ``number`` how many clusters a line is.
    """

    own: Matrix
    base: FloatArray
    reached: BoolArray
    beside: FloatArray
    common: Matrix | None
    first: FloatArray
    square: FloatArray
    fourth: FloatArray
    number: FloatArray


@dataclass(frozen=True, slots=True)
class JointLaw:
    """What a joint statistic is held against: a sum of chi-squares with ``weights``, by Satterthwaite's F."""

    weights: FloatArray
    effective: float

    @property
    def df(self) -> tuple[float, float]:
        """Degrees of freedom above and below (Rao and Thomas 1989)."""
        above = float(self.weights.sum() ** 2 / (self.weights**2).sum())
        return above, above * max(self.effective - 1.0, 1e-3)

    def tail(self, statistic: float) -> float:
        """The p-value."""
        return float(special.fdtrc(*self.df, max(statistic, 0.0) / self.weights.sum()))

    def critical(self, alpha: float) -> float:
        """The statistic whose p-value is ``alpha``."""
        return float(special.fdtri(*self.df, 1.0 - alpha) * self.weights.sum())


def joint_law(design: Design, influence: Influence, df: int, effective: float) -> JointLaw:
    """The law of a joint statistic that takes rows as independent: eigenvalues of (assumed)^-1 (actual covariance).

    In the ``df`` directions in which the contrasts vary most: others are fixed by them but for the estimates' error.
    """
    independent = Design(design.mass, design.mass, design.mass, design.rows, None)
    assumed = _summed(independent, influence, products=True).products
    assert assumed is not None
    scale, vectors = np.linalg.eigh(assumed)
    half = vectors[:, -df:] / np.sqrt(scale[-df:])
    return JointLaw(np.maximum(np.linalg.eigvalsh(half.T @ covariance(design, influence) @ half), 0.0), effective)


def _lines_alone(design: Design, influence: Influence) -> _Part:
    """Rows that are clusters of their own, line by line."""
    beside = influence.reached.astype(float)
    powers = design.mass, design.second, design.fourth
    return _Part(influence.own, influence.base, influence.reached, beside, _common(influence), *powers, design.rows)


def _common(influence: Influence) -> Matrix | None:
    """Marks as those of ``own``, whose real part is 1 where the line is also the reference's; None if all are, or none.

    The imaginary parts keep the entries of products where those of ``own`` are.
    """
    if influence.overlap is not Overlap.PARTLY:
        return None
    own, line = influence.own, influence.own_lines
    marks = own.data.imag * (influence.reached[line] + 1j)
    return sparse.csr_array((marks, own.indices, own.indptr), shape=own.shape)


def _shared_mass(part: _Part, overlap: Overlap) -> FloatArray:
    """The mass that each entry of ``own`` has in common with the reference."""
    if overlap is Overlap.PARTLY:
        assert part.common is not None
        return np.asarray(part.common.data.real)
    mass = np.asarray(part.own.data.imag)
    return mass if overlap is Overlap.WHOLE else np.zeros(mass.size)


def _placed(design: Design, influence: Influence) -> tuple[Matrix, FloatArray, FloatArray, Matrix | None]:
    """What lines add, their reference and what they have in common with it, for all lines that the clusters have."""
    reached, common = influence.reached.astype(float), _common(influence)
    if (placed := design.placed) is None:
        return influence.own, influence.base, reached, common
    own = sparse.csr_array(placed @ influence.own)
    shared = None if common is None else sparse.csr_array(placed @ common)
    return own, placed @ influence.base, placed @ reached, shared


def _clusters_of(matrix: Matrix, placed: tuple[Matrix, FloatArray, FloatArray, Matrix | None]) -> _Part:
    """The clusters of one matrix."""
    own, base, reached, common = placed
    ones, beside = np.ones(matrix.shape[0]), matrix @ reached
    shared = None if common is None else sparse.csr_array(matrix @ common)
    return _Part(sparse.csr_array(matrix @ own), matrix @ base, beside > 0, beside, shared, ones, ones, ones, ones)
