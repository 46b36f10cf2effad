"""Design effects: the same tests where rows have weights or belong to clusters.

A test that takes rows as independent has a statistic T, chi-square with one degree of freedom, and assumes a variance
of its contrast. With weights or clusters

1. means and T are computed from the masses of a `Design` (weights scaled to sum to the number of rows);
2. the contrast is linearized: every line has an `Influence` on it, per unit of mass;
3. S_c is the sum of mass times influence over cluster c (over each row, where there are no clusters);
4. the design effect is [C / (C - 1) sum S_c^2] / [the variance T assumes], and T over it is compared with F(1, nu),
   nu = (sum S_c^2)^2 / sum S_c^4 - 1: the number of clusters that the variance effectively rests on, less one.

(Rao and Scott 1981; Wu and Rao 2006, pseudo-empirical likelihood.) A method computes its estimates from masses, states
the influence of each line, and calls `spread` once; `Law` then turns T into a chi-square with the same tail and a
chi-square's critical value into one of T, so that hypotheses, intervals and adjustments do not depend on the design.

    totals = spread(design, Influence.from_values(lines_by_contrasts))
    law = totals.law(assumed_variance)
    law.chi_square(T)            p-values: chi2_sf(law.chi_square(T), 1)
    law.critical(chi2_isf(...))  intervals: where T reaches it

A group below `FEWEST` effective clusters, (sum of masses)^2 / (sum of squared masses), is listed with
`Status.FEW_CLUSTERS` and not tested.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse, special

from isonomy.frames import Grouping, Request, Source
from isonomy.frames.design import Design, Matrix
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.tails import chi2_isf, chi2_sf, t_isf

# Below this effective number of clusters the spread between them is too uncertain for a test.
FEWEST = 10.0
# Below this tail probability t is converted to its normal equivalent by Wallace's formula: the tail itself underflows.
SMALLEST = 1e-280
# Contrasts, and lines by contrasts, up to which sums over clusters are made with dense arrays.
CONTRASTS, DENSE = 64, 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Influence:
    """What one unit of mass in a line adds to each contrast: ``direct[line, contrast] + base[line] @ loading``.

    ``direct`` and ``members`` are sparse (lines x contrasts), as a line is in few groups: what the line adds as part of
    the contrast's group, and the mass of members in the line (1). ``base`` is what lines add to every contrast through
    a common reference (0 for lines outside it), ``reference`` the mass of the reference in each line, and ``common``
    that of members who also belong to the reference (None: nobody does).
    """

    direct: Matrix
    members: Matrix
    base: FloatArray
    loading: FloatArray
    reference: FloatArray
    common: Matrix | None

    @classmethod
    def from_values(cls, values: FloatArray, members: BoolArray | None = None) -> Influence:
        """One column per contrast; ``members`` are the lines it is about (default: all)."""
        columns = values[:, None] if values.ndim == 1 else values
        marks = np.ones(columns.shape) if members is None else members.reshape(columns.shape).astype(float)
        lines, contrasts = columns.shape
        base, loading = np.zeros((lines, 0)), np.zeros((0, contrasts))
        return cls(sparse.csr_array(columns), sparse.csr_array(marks), base, loading, np.zeros(lines), None)

    @classmethod
    def from_groups(
        cls,
        codes: IntArray,
        values: FloatArray,
        groups: int,
        base: FloatArray | None = None,
        loading: FloatArray | None = None,
        reference: BoolArray | None = None,
    ) -> Influence:
        """Disjoint groups: ``codes`` has the group of each line (-1: none), ``values`` its influence on that group."""

        def entries(lines: IntArray, data: FloatArray) -> Matrix:
            return sparse.csr_array((data, (lines, codes[lines])), shape=(codes.size, groups))

        lines = np.flatnonzero(codes >= 0)
        members = entries(lines, np.ones(lines.size))
        among = np.zeros(codes.size) if reference is None else reference.astype(float)
        both = lines[among[lines] > 0]
        return cls(
            entries(lines, values[lines]),
            members,
            np.zeros((codes.size, 0)) if base is None else base,
            np.zeros((0, groups)) if loading is None else loading,
            among,
            None if not both.size else members if both.size == lines.size else entries(both, np.ones(both.size)),
        )

    @classmethod
    def join(cls, parts: Sequence[Influence], chosen: BoolArray) -> Influence:
        direct, members, common, loading = [], [], [], []
        whole = True  # all members belong to the reference
        for part in parts:
            direct.append(part.direct)
            members.append(part.members)
            common.append(sparse.csr_array(part.members.shape) if part.common is None else part.common)
            loading.append(part.loading)
            whole &= part.common is part.members
        both = _columns(members, chosen)
        shared = both if whole else _columns(common, chosen)
        return cls(
            _columns(direct, chosen),
            both,
            parts[0].base,
            np.hstack(loading)[:, chosen],
            parts[0].reference,
            shared if shared.nnz else None,
        )

    def among(self, lines: BoolArray) -> Influence:
        """The same influence of some lines alone."""
        chosen = sparse.diags_array(lines.astype(float))
        members, whole = sparse.csr_array(chosen @ self.members), self.common is self.members
        common = members if whole or self.common is None else sparse.csr_array(chosen @ self.common)
        return Influence(
            sparse.csr_array(chosen @ self.direct),
            members,
            self.base * lines[:, None],
            self.loading,
            self.reference * lines,
            None if self.common is None else common,
        )

    def dense(self) -> FloatArray:
        """The whole influence, lines x contrasts; for few of either."""
        return np.asarray(self.direct.toarray()) + self.base @ self.loading

    def summed(self, matrix: Matrix) -> Influence:
        """What clusters add to each contrast; ``matrix`` has the masses by cluster and line."""
        members = matrix @ self.members
        common = None if self.common is None else members if self.common is self.members else matrix @ self.common
        return Influence(
            matrix @ self.direct, members, matrix @ self.base, self.loading, matrix @ self.reference, common
        )


def _columns(matrices: list[Matrix], chosen: BoolArray) -> Matrix:
    return sparse.csr_array(sparse.csc_array(sparse.hstack(matrices))[:, np.flatnonzero(chosen)])


@dataclass(frozen=True, slots=True, eq=False)
class DesignEffect:
    effect: FloatArray
    clusters: FloatArray
    effective: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """The law of T: F(1, ``df``) after division by ``effect``, the design effect."""

    effect: FloatArray
    df: FloatArray

    def select(self, index: IntArray) -> Law:
        return Law(self.effect[index], self.df[index])

    def chi_square(self, statistic: npt.ArrayLike) -> FloatArray:
        """The chi-square with one degree of freedom that has the tail of T under this law."""
        square = np.asarray(statistic, dtype=float) / self.effect
        with np.errstate(all="ignore"):
            tail = 2.0 * special.stdtr(self.df, -np.sqrt(square))
            # Wallace (1959): z = (8 df + 1) / (8 df + 3) sqrt(df log(1 + t^2 / df)).
            far = ((8 * self.df + 1) / (8 * self.df + 3)) ** 2 * self.df * np.log1p(square / self.df)
            near = np.asarray(chi2_isf(np.maximum(tail, SMALLEST), 1))
        value = np.where(tail > SMALLEST, near, np.maximum(far, chi2_isf(SMALLEST, 1)))
        return np.where(np.isposinf(square), np.inf, np.where(np.isnan(square), np.nan, value))

    def critical(self, chi_square: npt.ArrayLike) -> FloatArray:
        tail = np.asarray(chi2_sf(chi_square, 1))
        return self.effect * t_isf(tail / 2, self.df) ** 2


class Contribution(NamedTuple):
    """What one side of each contrast, such as the group or its reference, contributes to the contrast's error.

    ``third`` and ``variance`` are the sums of the cubed and the squared influence values, ``rows`` is the number of
    rows of equal weight that carry as much information, ``df`` the degrees of freedom of the variance.
    """

    third: FloatArray
    variance: FloatArray
    rows: FloatArray
    df: FloatArray

    @classmethod
    def of_rows(cls, third: FloatArray, variance: FloatArray, rows: FloatArray) -> Contribution:
        return cls(third, variance, rows, np.maximum(rows - 1.0, 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Sums over clusters for each contrast: of S^2 and S^4, of the masses of its members and of their squares.

    ``occupied`` is the number of clusters with members, ``clusters`` that of clusters with members or referents;
    ``others`` and ``squared_others`` are the masses of referents who are not members. ``third`` is the sum of S^3;
    ``second_beside`` and ``third_beside`` are the sums over clusters without members.
    """

    second: FloatArray
    fourth: FloatArray
    mass: FloatArray
    squared_mass: FloatArray
    occupied: FloatArray
    clusters: FloatArray
    others: FloatArray
    squared_others: FloatArray
    third: FloatArray
    second_beside: FloatArray
    third_beside: FloatArray

    @classmethod
    def join(cls, spreads: Sequence[Spread]) -> Spread:
        return cls(*(np.concatenate([getattr(part, field.name) for part in spreads]) for field in fields(cls)))

    def select(self, index: IntArray) -> Spread:
        return Spread(*(getattr(self, field.name)[index] for field in fields(self)))

    @property
    def variance(self) -> FloatArray:
        with np.errstate(all="ignore"):
            return np.where(self.clusters > 1, self.clusters / (self.clusters - 1), np.nan) * self.second

    @property
    def effective(self) -> FloatArray:
        """The number of clusters of equal mass that carry as much information, of members or of referents if fewer."""
        with np.errstate(all="ignore"):
            beside = np.where(self.others > 0, self.others**2 / self.squared_others, np.inf)
            return np.minimum(self.mass**2 / self.squared_mass, beside)

    @property
    def sides(self) -> tuple[Contribution, Contribution]:
        """What members, and clusters without members, contribute to each contrast."""
        with np.errstate(all="ignore"):
            mine = np.maximum(self.second - self.second_beside, 0.0), self.mass**2 / self.squared_mass
            beside = np.where(self.others > 0, self.others**2 / self.squared_others, self.clusters - self.occupied)
        return (
            Contribution.of_rows(self.third - self.third_beside, *mine),
            Contribution.of_rows(self.third_beside, self.second_beside, beside),
        )

    @property
    def df(self) -> FloatArray:
        """The degrees of freedom of each variance: the number of clusters it effectively rests on, less one."""
        with np.errstate(all="ignore"):
            return np.maximum(np.nan_to_num(self.second**2 / self.fourth) - 1.0, 1e-3)

    def effect(self, law: Law) -> DesignEffect:
        return DesignEffect(law.effect, self.occupied, self.effective)

    def law(self, assumed: FloatArray, *, constant: BoolArray | None = None) -> Law:
        """The law of a T that assumes these variances.

        A group that is ``constant`` shows no spread between its clusters: each of them then counts as one row.
        """
        with np.errstate(all="ignore"):
            effect, df = self.variance / assumed, self.df
            if constant is not None:
                effect = np.where(constant, self.squared_mass / self.mass, effect)
                df = np.where(constant, self.mass**2 / self.squared_mass - 1.0, df)
        return Law(effect, np.maximum(df, 1e-3))


def spread(design: Design, influence: Influence) -> Spread:
    """Sums over clusters, or over rows that are clusters of their own."""
    totals = Spread(*_over_clusters(design, influence, _powers)[:11])
    # Differences of sums may leave some rounding.
    return replace(
        totals,
        second=np.maximum(totals.second, 0.0),
        fourth=np.maximum(totals.fourth, 0.0),
        others=np.where(totals.others > 1e-9 * totals.others.max(initial=0.0), totals.others, 0.0),
        squared_others=np.maximum(totals.squared_others, 0.0),
        second_beside=np.maximum(totals.second_beside, 0.0),
    )


def covariance(design: Design | tuple[FloatArray, FloatArray], influence: Influence) -> FloatArray:
    """The covariance matrix of all contrasts: the sum over clusters of S S', times C / (C - 1).

    ``design`` may also be a pair, the mass and the number of rows of each line; these rows are taken to be independent.
    """
    if isinstance(design, tuple):
        mass, rows = design
        number, products = _products(influence, mass, mass, mass, rows)
    else:
        number, products = _over_clusters(design, influence, _products)[-2:]
    return products * number / (number - 1.0) if number > 1 else np.full_like(products, np.nan)


def count_clusters(source: Source, grouping: Grouping, everybody: str = "") -> tuple[tuple[str, int, float], ...]:
    """The label, clusters and effective clusters of each group with a complete row; ``everybody`` labels all rows."""
    cells = source.reread(missing="drop", missing_group="drop").cells(Request(grouping))
    assert cells.design is not None
    lines = cells.size
    parts = [(part.codes, [group.label for group in part.groups]) for part in cells.partitions]
    clusters: list[tuple[str, int, float]] = []
    for codes, labels in [(np.zeros(lines, dtype=np.intp), [everybody]), *parts] if everybody else parts:
        totals = spread(cells.design, Influence.from_groups(codes, np.zeros(lines), len(labels)))
        numbers = zip(labels, totals.occupied, totals.effective, strict=True)
        clusters += [(label, round(float(number)), float(worth)) for label, number, worth in numbers if number]
    return tuple(clusters)


def _over_clusters(design: Design, influence: Influence, function: Callable[..., list[Any]]) -> list[Any]:
    """The results of ``function`` (`_powers` or `_products`) for the clusters added up; of `_dense_sums` for few lines.

    A function takes the influence of clusters (or of lines, if rows are clusters of their own), the weights of its
    first, second and fourth powers, and the number of clusters of each line.
    """
    if design.clusters is None:
        return function(influence, design.mass, design.second, design.fourth, design.rows)
    placed = influence if design.placed is None else influence.summed(design.placed)
    lines, contrasts = placed.direct.shape
    if contrasts > CONTRASTS or lines * contrasts > DENSE:

        def summed(matrix: Matrix) -> list[Any]:
            ones = np.ones(matrix.shape[0])
            return function(placed.summed(matrix), ones, ones, ones, ones)

        return reduce(_add, design.clusters.apply(summed))
    columns = np.hstack([placed.dense(), placed.members.toarray(), placed.reference[:, None]])
    # A question needs the same sums several times. Making them again takes half as long again: `flag` of 1,000,000 rows
    # in 20 groups and 50,000 clusters, 0.21 s instead of 0.14 s.
    for known, sums in design.clusters.sums:
        if np.array_equal(known, columns):
            return sums
    whole = placed.common is placed.members
    dense = columns if whole or placed.common is None else np.hstack([columns, placed.common.toarray()])
    sums = reduce(_add, design.clusters.apply(lambda matrix: _dense_sums(matrix @ dense, contrasts, whole=whole)))
    design.clusters.sums.append((columns, sums))
    return sums


def _add(left: list[Any], right: list[Any]) -> list[Any]:
    return [a + b for a, b in zip(left, right, strict=True)]


def _dense_sums(totals: FloatArray, contrasts: int, *, whole: bool) -> list[Any]:
    """The fields of a `Spread`, the number of clusters of all contrasts, and the sums of the products of their S.

    ``totals`` are the sums over each cluster: S, the masses of members, of the reference, and of members in it, which
    are left out if all members are (``whole``), or none.
    """
    total, members, reference, common = np.split(totals, np.cumsum([contrasts, contrasts, 1]), axis=1)
    common = members if whole else common if common.size else np.zeros((1, contrasts))
    ones, squares, products, beside = np.ones(len(totals)), total * total, total.T @ total, reference - common
    present, cubes = members > 0, squares * total
    adding = present | (reference > 0) | (total != 0)
    return [
        np.diagonal(products),
        ones @ (squares * squares),
        ones @ members,
        ones @ (members * members),
        np.count_nonzero(present, axis=0).astype(float),
        np.count_nonzero(adding, axis=0).astype(float),
        ones @ beside,
        ones @ (beside * beside),
        ones @ cubes,
        ones @ (squares * ~present),
        ones @ (cubes * ~present),
        float(np.count_nonzero(adding.any(axis=1))),
        products,
    ]


def _powers(
    part: Influence, mass: FloatArray, square: FloatArray, fourth: FloatArray, number: FloatArray
) -> list[FloatArray]:
    """The fields of a `Spread`.

    Few clusters have a direct part. Sums of powers of base @ loading over all clusters come from the moments of the
    columns of base; the entries of the direct part then add what they change.
    """
    base, loading, reference = part.base, part.loading, part.reference
    reached, contrasts = reference > 0, part.direct.shape[1]
    direct, members = part.direct.tocoo(), part.members.tocoo()
    common = sparse.coo_array(direct.shape) if part.common is None else part.common.tocoo()
    shared = _through_base(part, direct)
    total, beside = direct.data + shared, reference[common.row]
    # Third powers of weights: exact where the rows of a line have equal weights, otherwise too large.
    cube = np.sqrt(square * fourth)
    # ``either``: the entries of clusters with members or with a direct part.
    if np.array_equal(direct.row, members.row) and np.array_equal(direct.col, members.col):
        through, outside, adding = shared, np.zeros(1), (direct.data != 0) | (members.data != 0)
        either = sparse.coo_array((members.data[adding], (members.row[adding], members.col[adding])), direct.shape)
    else:
        places = [entries.row.astype(np.int64) * contrasts + entries.col for entries in (direct, members)]
        through, outside = _through_base(part, members), np.asarray(~np.isin(*places), dtype=float)
        either = (abs(part.direct) + part.members).tocoo()

    def over(entries: Matrix, weight: FloatArray, values: FloatArray | BoolArray) -> FloatArray:
        return np.bincount(entries.col, weights=weight[entries.row] * values, minlength=contrasts).astype(float)

    second, third = total * total - shared * shared, total * total * total - shared * shared * shared
    squares = np.einsum("ig,jg,ij->g", loading, loading, _moments(base, square, 2))
    cubes = np.einsum("ig,jg,kg,ijk->g", loading, loading, loading, _moments(base, cube, 3))
    fourths = np.einsum("ig,jg,kg,lg,ijkl->g", loading, loading, loading, loading, _moments(base, fourth, 4))
    return [
        squares + over(direct, square, second),
        fourths + over(direct, fourth, second * (total * total + shared * shared)),
        over(members, mass, members.data),
        over(members, square, members.data * members.data),
        over(members, number, members.data > 0),
        number[reached].sum() + over(either, number, ~reached[either.row]),
        mass @ reference - over(common, mass, common.data),
        square @ reference**2 + over(common, square, (beside - common.data) ** 2 - beside**2),
        cubes + over(direct, cube, third),
        squares + over(direct, square, outside * second) - over(members, square, through * through),
        cubes + over(direct, cube, outside * third) - over(members, cube, through * through * through),
    ]


def _through_base(part: Influence, entries: Matrix) -> FloatArray:
    """The values of base @ loading at the places of the entries."""
    added = np.zeros(entries.row.size)
    for column, loading in zip(part.base.T, part.loading, strict=True):
        added += column[entries.row] * loading[entries.col]
    return added


def _moments(base: FloatArray, weight: FloatArray, power: int) -> FloatArray:
    """The weighted sums over lines of the products of any ``power`` columns (2 or more), in all orders."""
    if power == 2:
        return np.asarray(base.T @ (weight[:, None] * base))
    products = [_moments(base, weight * column, power - 1) for column in base.T]
    return np.array(products).reshape((base.shape[1],) * power)


def _products(
    part: Influence, mass: FloatArray, square: FloatArray, fourth: FloatArray, number: FloatArray
) -> list[Any]:
    """The number of clusters of all contrasts, and the sums of the products of their S."""
    touched = (part.reference > 0) | ((abs(part.direct) + part.members).sum(axis=1) > 0)
    scaled = sparse.diags_array(square) @ part.direct
    cross = np.asarray(scaled.T @ part.base) @ part.loading
    shared = part.loading.T @ (part.base.T @ (square[:, None] * part.base)) @ part.loading
    return [float(number[touched].sum()), (part.direct.T @ scaled).toarray() + cross + cross.T + shared]


@dataclass(frozen=True, slots=True)
class JointLaw:
    """The law of a joint statistic: a sum of chi-squares with ``weights``, by Satterthwaite's F."""

    weights: FloatArray
    effective: float

    @property
    def df(self) -> tuple[float, float]:
        """Numerator and denominator degrees of freedom (Rao and Thomas 1989)."""
        above = float(self.weights.sum() ** 2 / (self.weights**2).sum())
        return above, above * max(self.effective - 1.0, 1e-3)

    def tail(self, statistic: float) -> float:
        return float(special.fdtrc(*self.df, max(statistic, 0.0) / self.weights.sum()))

    def critical(self, alpha: float) -> float:
        return float(special.fdtri(*self.df, 1.0 - alpha) * self.weights.sum())


def joint_law(design: Design, influence: Influence, df: int, effective: float) -> JointLaw:
    """The law of a joint statistic that takes rows as independent: eigenvalues of (assumed)^-1 (actual covariance).

    In the ``df`` directions in which the contrasts vary most; the others are determined by them, up to rounding.
    """
    scale, vectors = np.linalg.eigh(_products(influence, design.mass, design.mass, design.mass, design.rows)[1])
    half = vectors[:, -df:] / np.sqrt(scale[-df:])
    return JointLaw(np.maximum(np.linalg.eigvalsh(half.T @ covariance(design, influence) @ half), 0.0), effective)
