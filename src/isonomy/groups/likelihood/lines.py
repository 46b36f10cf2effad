"""The rows of a test as lines: cells with counts for a 0/1 metric, rows otherwise; and metrics that are not means.

Very many rows are replaced by a few thousand weighted values per group, from one grouped pass: bins with matched
moments. A bin's width is a fixed share of its distance from a center c, or of a scale s near the center: with a = |x -
c|,

    bin = floor(K log(1 + a/s)),    width = (s + a) / K approximately,

so bins are narrow where there are many rows, and elsewhere as narrow as the tails require. The pass counts each group's
rows in each bin, and sums the first three powers of their positions in it. Two weighted values with the same count,
mean, variance and third moment (the Gauss quadrature of the rows) replace them. A sum of f over the rows differs from
that over the values by at most the fourth derivative of f, times the fourth power of the width, over 384, for each row
of a bin. A likelihood sums log(1 + w x'), x' = x - mean. If |w| max|x'| is at most 1/2 (each row has between 2/3 and 2
times an equal share), the relative error of a statistic is at most 1 / (8 K^4), provided that no bin is wider than 1/K
of |x'| plus the group's standard deviation; `choose_bins` chooses K for that. With K = 256 that is 3e-11. Closer to the
ends of the range of a mean, the bound grows as the fourth power of 1 / (1 - |w| max|x'|).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from isonomy.errors import DataError, UsageError
from isonomy.frames import Design, Partition, Request, Sample, Source
from isonomy.frames.expressions import Expression, either, number
from isonomy.frames.metrics import Measure
from isonomy.frames.sums import SENT, has_workers
from isonomy.groups.likelihood.functionals import MetricDistance, distance, evaluate
from isonomy.groups.likelihood.joint import Patterns
from isonomy.groups.likelihood.means import Binary, Real
from isonomy.inference.designs import Influence, spread
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.ragged import Ragged

# Influence values of all lines on all groups that may be in memory at once.
ENTRIES = 50_000_000


def refuse_many(argument: str, lines: int, groups: int) -> None:
    """Refuse more influence values than fit in memory: weights, clusters and some joint tests need all of them."""
    if lines * groups > ENTRIES:
        raise UsageError(
            f"{argument}: {groups:,} groups and {lines:,} lines are too many here; test fewer groups at a time."
        )


@dataclass(frozen=True, slots=True)
class Units:
    """A value x of the metric is (x - ``center``) / ``scale`` in these units, a disparity ε is ε / ``scale``.

    Sums of squares about a distant origin lose the digits that tell functions apart, and solvers have absolute
    tolerances. A joint likelihood therefore takes the metric minus its mean, in standard deviations.
    """

    center: float = 0.0
    scale: float = 1.0

    @classmethod
    def spanning(cls, center: float, spread: float) -> Units:
        """Units of the power of two next to ``spread``: scaling by it rounds nothing."""
        return cls(center, float(np.exp2(np.rint(np.log2(spread)))) if spread > 0 else 1.0)

    @property
    def zero(self) -> float:
        """The distance of the origin from the metric's zero, in these units."""
        return self.center / self.scale

    def standard(self, value: FloatArray) -> FloatArray:
        return (value - self.center) / self.scale


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """One ``value`` of the metric per line, ``weight`` rows to a line (None: one), and the rows' ``influence`` on a
    reference that the caller estimated. The metric's condition holds in the lines ``inside`` (None: all)."""

    binary: bool
    value: FloatArray
    weight: FloatArray | None = None
    influence: FloatArray | None = None
    inside: BoolArray | None = None

    @property
    def mass(self) -> FloatArray:
        mass = np.ones(self.value.size) if self.weight is None else self.weight
        return mass if self.inside is None else mass * self.inside

    def means(self, codes: IntArray, size: int) -> Binary | Real:
        """The groups 0..size-1 of ``codes``; lines with code -1, or outside the metric's condition, are left out."""
        if self.inside is not None:
            codes = np.where(self.inside, codes, -1)
        if not self.binary:
            return Real(Ragged.from_codes(codes, size, self.value, weights=self.weight))
        mass = self.mass
        n = np.bincount(codes + 1, weights=mass, minlength=size + 1)[1:]
        return Binary(n, np.bincount(codes + 1, weights=mass * self.value, minlength=size + 1)[1:])

    def patterns(self, codes: IntArray, size: int) -> Patterns:
        """The lines arranged for a joint likelihood; lines with code -1 are left out."""
        if self.binary and self.influence is None:
            return Patterns.from_counts(codes, size, self.value, self.mass)
        columns = (self.value,) if self.influence is None else (self.value, self.influence)
        return Patterns(codes, size, columns, self.weight)

    def collapsed(self, codes: IntArray) -> tuple[IntArray, Lines]:
        """Equal lines of one code merged and sorted: the order of the rows must not change a draw."""
        columns = [codes, self.value, *(() if self.influence is None else (self.influence,))]
        order = np.lexsort(columns[::-1])
        columns = [column[order] for column in columns]
        starts = np.flatnonzero(np.any([np.diff(column, prepend=np.nan) != 0 for column in columns], axis=0))
        weight = np.add.reduceat(self.mass[order], starts)
        influence = None if self.influence is None else columns[2][starts]
        return columns[0][starts], Lines(self.binary, columns[1][starts], weight, influence)

    def standard(self) -> tuple[Units, Lines]:
        """The units in which a joint likelihood is solved, and the lines in them: 0 outside the metric's condition.

        A 0/1 metric keeps its units, so that counts are enough.
        """
        if self.binary:
            return Units(), Lines(True, self.value, self.weight, self.influence)
        value, weight, inside = self.value, self.weight, self.inside
        if inside is not None:
            value, weight = value[inside], None if weight is None else weight[inside]
        low, high = float(value.min()), float(value.max())
        units = Units(low)
        if low < high:
            center = float(np.average(value, weights=weight))
            reach = max(high - center, center - low)
            variance = np.average(((value - center) / reach) ** 2, weights=weight)
            units = Units.spanning(center, float(reach * np.sqrt(variance)))
        standard = units.standard(self.value)
        influence = None if self.influence is None else self.influence / units.scale
        values = standard if inside is None else np.where(inside, standard, 0.0)
        return units, Lines(False, values, self.weight, influence)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MetricRows(Lines):
    """Lines of the metric's condition (cells of a 0/1 metric, rows otherwise) and the groups they belong to.

    ``partitions`` have one code per line; ``sizes`` are the groups' rows whether or not the metric's condition holds;
    ``inside`` is None unless the reference brings influence values, which count for every row; ``in_reference`` says
    which belong to the named reference; ``strata`` are the strata of a conditional comparison;
    ``design`` is that of rows with weights or clusters; ``used`` are the rows inside the metric's condition;
    ``lines_kept`` are the places of the lines among all lines of the pass, whose design is ``whole``. A metric that is
    not a mean over rows has its columns in ``roles``; ``factors`` are the numbers and the codes of levels by which
    people are comparable.
    """

    measure: Measure
    partitions: tuple[Partition, ...]
    strata: Partition | None
    sizes: tuple[FloatArray, ...]
    in_reference: BoolArray | None
    rows: int
    used: int
    dropped: Mapping[str, int]
    design: Design | None
    whole: Design | None
    roles: Mapping[str, FloatArray]
    lines_kept: IntArray
    factors: tuple[Mapping[str, FloatArray], Mapping[str, IntArray]] | None = None

    @property
    def counts(self) -> FloatArray:
        if self.design is None:
            return self.mass
        return self.design.rows if self.inside is None else self.design.rows * self.inside

    def reached(self, rows: BoolArray) -> tuple[str, ...]:
        codes = [(partition, np.unique(partition.codes[rows & (self.mass > 0)])) for partition in self.partitions]
        return tuple(str(partition.groups[code]) for partition, some in codes for code in some if code >= 0)

    def evaluate(self, rows: BoolArray) -> Evaluation:
        lines = np.flatnonzero(rows)
        columns, mass = {role: values[lines] for role, values in self.roles.items()}, self.mass[lines]
        name, total, worth = self.measure.functional, float(mass.sum()), mass
        if name == "quantile" and self.design is not None and total > 0:
            # The error of a quantile is that of a rank. The number of rows behind it is that of independent, equal rows
            # that would give the share below the quantile the same error: equal rows of one cluster count as one.
            below = np.zeros(rows.size)
            below[lines] = evaluate(name, columns, mass / total)[1]
            error = spread(self.design, Influence.from_groups(np.where(rows, 0, -1), below, 1)).second[0]
            # A tie is rounded up, so that it does not depend on the last digit of a sum.
            number = max(round(float(mass @ below[lines] ** 2) * total / error + 1e-9), 1) if error > 0 else total
            worth = mass * (number / total)
        value, influence = evaluate(name, columns, worth)
        return Evaluation(value, lines, influence, mass, lambda: distance(name, columns, worth, value, influence))


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """A metric that is not a mean over rows: its value, and the influence values and masses of its ``lines``."""

    value: float
    lines: IntArray
    influence: FloatArray
    mass: FloatArray
    measured: Callable[[], MetricDistance]

    @property
    def added(self) -> FloatArray:
        return self.influence / max(float(self.mass.sum()), 1e-300)


# ---- very many rows

FINE = 256.0  # K: bins per factor e of distance, if all groups vary as all rows do
FINEST = 2.0**26
LINES, SHARE = 2**23, 0.5  # bins of all groups, and bins per row, above which reading the rows is as cheap
WIDE = 10.0  # standard deviations on either side of a group's mean that hold nearly all of its rows
MANY, PART = 50_000, 25_000_000  # lines above which they are counted in parts, and the rows of a part
TIED = 1e-13  # a variance within a bin, relative to its squared width, that is rounding
STEP = 2.0**16  # weights are multiples of 1 / STEP: their sums are exact up to 1e11 rows
READ = 2_000_000  # rows of an engine up to which values are read row by row; on Spark never


@dataclass(frozen=True, slots=True)
class LogBins:
    """Bins by the distance from ``center`` on a logarithmic scale that begins at ``scale``; the range of all values."""

    center: float
    scale: float
    fine: float
    low: float
    high: float

    def keys(self, value: Expression) -> dict[str, Expression]:
        """The grouping key: the bin, 0, 1, ... above the center and -1, -2, ... below it."""
        code = self._bin(value)
        return {"bin": either(value >= self.center, code, -1.0 - code)}

    def sums(self, value: Expression) -> dict[str, Expression]:
        """The columns to sum: powers of the position within the bin, from 0 to about 1."""
        grown = (self._bin(value) * (1.0 / self.fine)).exp()  # the bin begins at scale * (grown - 1)
        place = (((value - self.center).abs() * (1.0 / self.scale) + 1.0) / grown - 1.0) * self.fine
        return {"first": place, "second": place * place, "third": place * place * place}

    def parts(self, value: Expression, rows: float, cells: int) -> list[Expression]:
        """Conditions that separate very many bins, to count them in parts; empty if one pass is enough."""
        count = 2.0 ** np.ceil(np.log2(rows / PART)) if cells * self.fine > MANY and rows > PART else 1.0
        code = self._bin(value)
        rest = code - (code * (1.0 / count)).floor() * count
        return [rest == float(i) for i in range(int(count))] if count > 1 else []

    def _bin(self, value: Expression) -> Expression:
        away = (value - self.center).abs() * (1.0 / self.scale) + 1.0
        return (away.log() * self.fine).floor()

    def nodes(
        self, code: FloatArray, count: FloatArray, sums: Mapping[str, FloatArray]
    ) -> tuple[IntArray, FloatArray, FloatArray]:
        """The line that each value comes from, the value and its weight."""
        line, place, weight = quadrature(count, *(sums[power] / count for power in ("first", "second", "third")))
        below = code[line] < 0
        grown = np.exp(np.where(below, -1.0 - code[line], code[line]) / self.fine)
        away = self.scale * (grown * (1.0 + place / self.fine) - 1.0)
        return line, np.clip(self.center + np.where(below, -away, away), self.low, self.high), weight


def choose_bins(count: FloatArray, first: FloatArray, second: FloatArray, low: float, high: float) -> LogBins | None:
    """The bins for cells with these rows and sums of values and squares; None if they would be as many as the rows.

    A group that is narrow relative to its distance from the center needs finer bins, unless it has one or two rows:
    two values stand for them exactly.
    """
    total = float(count.sum())
    center = float(first.sum()) / total
    deviation = float(np.sqrt(max(float(second.sum()) / total - center**2, 0.0)))
    scale = min((size for size in (deviation, center - low, high - center) if size > 0), default=1.0)
    mean = first / count
    spreads = np.sqrt(np.maximum(second / count - mean**2, 0.0))
    matters = (count > 2) & (spreads > 1e-7 * np.maximum(np.abs(mean), 1e-300))  # else constant, up to rounding
    ratio = (np.abs(mean - center) + scale)[matters] / spreads[matters]
    fine = FINE * 2.0 ** np.ceil(np.log2(max(1.0, float(ratio.max(initial=1.0)))))
    ends = [np.clip(mean + side * WIDE * spreads, low, high) - center for side in (-1.0, 1.0)]
    reach = [np.sign(end) * np.log1p(np.abs(end) / scale) for end in ends]
    lines = float(np.minimum(count, 1.0 + fine * (reach[1] - reach[0])).sum())
    return LogBins(center, scale, fine, low, high) if fine <= FINEST and lines <= min(LINES, SHARE * total) else None


def quadrature(
    count: FloatArray, first: FloatArray, second: FloatArray, third: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Two values, or one, with the count and the first three moments of each line's rows: line, value and weight."""
    variance = np.maximum(second - first**2, 0.0)
    single = (count < 2) | (variance <= TIED)
    safe = np.where(single, 1.0, variance)
    skew = np.where(single, 0.0, (third - 3.0 * first * second + 2.0 * first**3) / safe)
    # Roots of t² - skew t - variance = 0, the larger one first so that no digits are lost.
    far = (skew + np.where(skew < 0, -1.0, 1.0) * np.sqrt(skew**2 + 4.0 * safe)) / 2.0
    near = -safe / far
    share = np.where(single, count, np.rint(count * far / (far - near) * STEP) / STEP)  # of the nearer value
    rest = count - share
    with np.errstate(invalid="ignore", divide="ignore"):
        shift = np.where(single, 0.0, -(share * near + rest * far) / count)  # the effect of rounding on the mean
    lines = np.arange(count.size)
    value = np.concatenate([first + np.where(single, 0.0, near + shift), first + far + shift])
    weight = np.concatenate([share, np.where(single, 0.0, rest)])
    used = weight > 0
    return np.concatenate([lines, lines])[used], value[used], weight[used]


def rows_or_bins(source: Source, measure: Measure, request: Request) -> Sample:
    """Every row's value; if an engine holds very many, three passes and a few thousand values per group instead.

    Spark's workers send no row: only bins or, where these would be as many as the rows, the distinct values of each
    cell with their counts.
    """
    if not source.lazy or source.designed or measure.functional:
        return source.rows(request)
    value = number(request.values["value"] if "value" in request.values else request.numeric["value"])
    cells = source.cells(replace(request, values={"first": value, "second": value * value}))
    inside, remote = measure.inside(cells), has_workers(source.frame)
    if cells.rows <= READ and not remote:
        return source.rows(request)
    if not inside.any():
        return replace(cells, columns={**cells.columns, "value": np.zeros(cells.size)}, values={})
    ends = source.extremes(value, {})
    first, second = (cells.values[name][inside] for name in ("first", "second"))
    bins = choose_bins(cells.counts[inside], first, second, float(ends["low"][0]), float(ends["high"][0]))
    if bins is None and not remote:
        return source.rows(request)
    if bins is None and cells.rows > SENT:
        raise UsageError(
            f"groups: the means of {cells.size:,} groups need the value of each of {cells.rows:,} rows, too many to "
            "send from Spark's workers. Test fewer groups at a time, or give the path of parquet files with the rows."
        )
    numeric = request.numeric if cells.dropped else {}  # the first pass saw no missing value
    counted = replace(request, numeric=numeric, probabilities=(), values={})
    if bins is None:
        answer = source.cells(replace(counted, keys={**request.keys, "value": value}))
        line, values, weight = np.arange(answer.size), answer.columns["value"], answer.counts
    else:
        binned = replace(counted, keys={**request.keys, **bins.keys(value)}, values=bins.sums(value))
        apart = bins.parts(value, cells.rows, cells.size) if source.frame.implementation.is_polars() else []
        answer = source.cells(binned, apart=apart)
        line, values, weight = bins.nodes(answer.columns["bin"].astype(float), answer.counts, answer.values)
    if answer.rows != cells.rows:
        raise DataError("data: the table changed between two passes; audit a copy that does not change.")
    return Sample(
        columns={**{name: codes[line] for name, codes in answer.columns.items()}, "value": values},
        count=weight,
        size=line.size,
        partitions=tuple(replace(partition, codes=partition.codes[line]) for partition in answer.partitions),
        dropped=answer.dropped,
    )
