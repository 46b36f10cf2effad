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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
from scipy import sparse, special

from isonomy.frames.design import Design, Matrix
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.tails import chi2_isf, chi2_sf

# Below this effective number of clusters the spread between them is too uncertain to test by.
FEWEST = 10.0
# Below this tail probability t is taken to its normal equivalent by Wallace's formula: the tail itself underflows.
SMALLEST = 1e-280


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
        return self.effect * special.stdtrit(self.df, tail / 2) ** 2


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
    contrasts = influence.own.shape[1]
    second, fourth, mass, squared, own, also, common = np.zeros((7, contrasts))
    reached, others, squared_others = 0.0, 0.0, 0.0
    for part in _parts(design, influence):
        moment = part.base.T @ (part.square[:, None] * part.base)
        second += np.einsum("ig,ij,jg->g", influence.loading, moment, influence.loading)
        # The fourth power of base @ loading, from the sums of products of four columns of the base.
        pairs = (part.base[:, :, None] * part.base[:, None, :]).reshape(len(part.base), -1)
        quartic = pairs.T @ (part.fourth[:, None] * pairs)
        both = np.einsum("ig,jg->ijg", influence.loading, influence.loading).reshape(pairs.shape[1], contrasts)
        fourth += np.einsum("ig,ij,jg->g", both, quartic, both)
        entries = part.own.tocoo()
        rows, columns, values = entries.row, entries.col, entries.data
        shared = np.einsum("ei,ie->e", part.base[rows], influence.loading[:, columns])
        total = values.real + shared

        def add(each: FloatArray, to: IntArray = columns) -> FloatArray:
            return np.bincount(to, weights=each, minlength=contrasts).astype(float)

        second += add(part.square[rows] * (total**2 - shared**2))
        fourth += add(part.fourth[rows] * (total**4 - shared**4))
        mass += add(part.first[rows] * values.imag)
        squared += add(part.square[rows] * values.imag**2)
        own += add(part.number[rows] * (values.imag > 0))
        also += add(part.number[rows] * ~part.reached[rows])
        common += add(part.square[rows] * values.imag * part.beside[rows])
        reached += float(part.number[part.reached].sum())
        others += float(part.first @ part.beside)
        squared_others += float(part.square @ part.beside**2)
    inner = np.zeros(contrasts)
    if influence.reached[influence.own.nonzero()[0]].any():  # a group that is part of its reference: what is beside it
        inner = mass
        squared_others = squared_others - 2.0 * common + squared
    beside = np.maximum(others - inner, 0.0)
    beside = np.where(beside > 1e-9 * others, beside, 0.0)
    return Spread(
        np.maximum(second, 0.0),
        np.maximum(fourth, 0.0),
        mass,
        squared,
        own,
        also + reached,
        beside,
        np.maximum(np.broadcast_to(squared_others, beside.shape), 0.0),
    )


def covariance(design: Design, influence: Influence) -> FloatArray:
    """The covariance matrix of all contrasts: the sum over clusters of S S', times C / (C - 1)."""
    total, number = _products(design, influence)
    return total * number / (number - 1.0) if number > 1 else np.full_like(total, np.nan)


def _products(design: Design, influence: Influence) -> tuple[FloatArray, float]:
    """The sum over clusters of S S', and how many clusters there are."""
    total, number = np.zeros((influence.own.shape[1],) * 2), 0.0
    for part in _parts(design, influence):
        own = sparse.csr_array((part.own.data.real, part.own.indices, part.own.indptr), shape=part.own.shape)
        scaled = sparse.diags_array(part.square) @ own
        cross = np.asarray(scaled.T @ part.base) @ influence.loading
        moment = part.base.T @ (part.square[:, None] * part.base)
        total += (own.T @ scaled).toarray() + cross + cross.T + influence.loading.T @ moment @ influence.loading
        touched = part.reached | (np.diff(part.own.indptr) > 0)
        number += float(part.number[touched].sum())
    return total, number


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Clusters (or lines of rows that are clusters of their own) with their S, before it is raised to a power.

    ``beside`` is the mass of the reference in each; ``first``, ``square``, ``fourth`` say what a unit of S, S^2 and S^4
    counts, ``number`` how many clusters a line is.
    """

    own: Matrix
    base: FloatArray
    reached: BoolArray
    beside: FloatArray
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
    scale, vectors = np.linalg.eigh(_products(independent, influence)[0])
    half = vectors[:, -df:] / np.sqrt(scale[-df:])
    return JointLaw(np.maximum(np.linalg.eigvalsh(half.T @ covariance(design, influence) @ half), 0.0), effective)


def _parts(design: Design, influence: Influence) -> Iterator[_Part]:
    if design.parts is None:
        beside = influence.reached.astype(float)
        powers = design.mass, design.second, design.fourth
        yield _Part(influence.own, influence.base, influence.reached, beside, *powers, design.rows)
        return
    for matrix in design.parts():
        ones = np.ones(matrix.shape[0])
        beside = matrix @ influence.reached.astype(float)
        own = sparse.csr_array(matrix @ influence.own)
        yield _Part(own, matrix @ influence.base, beside > 0, beside, ones, ones, ones, ones)
