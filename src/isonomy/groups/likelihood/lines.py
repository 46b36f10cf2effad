"""The rows of a test as lines: cells with counts for a 0/1 metric, else rows; and the units they are solved in.

Very many rows as a few thousand weighted values per group, known by one grouped pass: bins with matched moments.

Bins are as wide as a fixed share of the distance from a centre c, or of a scale s near it: with a = |x - c|,

    bin = floor(K log(1 + a/s)),    width = (s + a) / K about,

so that they are narrow where rows are many and no wider than the tails allow elsewhere. The pass counts each group's
rows in each bin, and sums the first three powers of their places within it. Two values with weights that have the same
count, mean, variance and third moment (the Gauss quadrature of the rows) then stand for them.

What that costs: a sum of f over the rows differs from that over the values by at most the fourth derivative of f, times
the fourth power of the width, over 384, for each row of a bin. A likelihood sums log(1 + w x'), x' = x - mean. Where
|w| max|x'| is at most 1/2 (each row is given between 2/3 and 2 times an equal share), a statistic is off by
at most 1 / (8 K^4) of itself if no bin is wider than 1/K of |x'| plus the group's standard deviation; `bins` chooses K
for that. With K = 256 that is 3e-11. Closer to the ends of what a mean can be, the bound grows as the fourth power of
1 / (1 - |w| max|x'|).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from isonomy.errors import DataError
from isonomy.frames import Design, Partition, Request, Sample, Source
from isonomy.frames.expressions import Expression, either, number
from isonomy.frames.metrics import Measure
from isonomy.groups.likelihood.joint import Patterns
from isonomy.groups.likelihood.means import Binary, Real
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.ragged import Ragged


@dataclass(frozen=True, slots=True)
class Units:
    """A value x of the metric is (x - ``centre``) / ``scale`` in these units, a disparity ε is ε / ``scale``.

    Sums of squares about a distant origin lose the digits that tell functions apart, and what a solver may leave undone
    is an absolute amount. So a joint likelihood takes the metric less its mean, in standard deviations.
    """

    centre: float = 0.0
    scale: float = 1.0

    @property
    def zero(self) -> float:
        """How far the metric's zero lies below the origin, in these units."""
        return self.centre / self.scale

    def standard(self, value: FloatArray) -> FloatArray:
        """Values of the metric in these units."""
        return (value - self.centre) / self.scale


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """One ``value`` of the metric per line, ``weight`` rows to a line (None: one), and the rows' ``influence`` on a
    reference that the caller estimated."""

    binary: bool
    value: FloatArray
    weight: FloatArray | None = None
    influence: FloatArray | None = None

    @property
    def mass(self) -> FloatArray:
        """How many rows each line stands for."""
        return np.ones(self.value.size) if self.weight is None else self.weight

    def means(self, codes: IntArray, size: int) -> Binary | Real:
        """The groups 0..size-1 of ``codes``, one code per line; lines with code -1 are left out."""
        if not self.binary:
            return Real(Ragged.from_codes(codes, size, self.value, weights=self.weight))
        n, ones = (
            np.bincount(codes + 1, weights=weight, minlength=size + 1)[1:]
            for weight in (self.mass, self.mass * self.value)
        )
        return Binary(n, ones)

    def patterns(self, codes: IntArray, size: int) -> Patterns:
        """The lines arranged for a joint likelihood; lines with code -1 are left out."""
        if self.binary and self.influence is None:
            return Patterns.of_counts(codes, size, self.value, self.mass)
        columns = (self.value,) if self.influence is None else (self.value, self.influence)
        return Patterns(codes, size, columns, self.weight)

    def collapsed(self, codes: IntArray) -> tuple[IntArray, Lines]:
        """Equal lines of one code as one, in an order of their own: how the rows came must not change a draw."""
        columns = [codes, self.value, *(() if self.influence is None else (self.influence,))]
        order = np.lexsort(columns[::-1])
        columns = [column[order] for column in columns]
        starts = np.flatnonzero(np.any([np.diff(column, prepend=np.nan) != 0 for column in columns], axis=0))
        weight = np.add.reduceat(self.mass[order], starts)
        influence = None if self.influence is None else columns[2][starts]
        return columns[0][starts], Lines(self.binary, columns[1][starts], weight, influence)

    def standard(self, inside: BoolArray | None) -> tuple[Units, Lines]:
        """The units in which a joint likelihood is solved, and the lines in them: 0 outside the metric's condition.

        A 0/1 metric keeps its own units, in which counts are enough.
        """
        if self.binary:
            return Units(), self
        units = self._units(inside)
        value = units.standard(self.value)
        influence = None if self.influence is None else self.influence / units.scale
        value = value if inside is None else np.where(inside, value, 0.0)
        return units, replace(self, value=value, influence=influence)

    def _units(self, inside: BoolArray | None) -> Units:
        value, weight = self.value, self.weight
        if inside is not None:
            value, weight = value[inside], None if weight is None else weight[inside]
        low, high = float(value.min()), float(value.max())
        if low == high:
            return Units(low)
        centre = float(np.average(value, weights=weight))
        reach = max(high - centre, centre - low)
        spread = reach * np.sqrt(np.average(((value - centre) / reach) ** 2, weights=weight))
        # The nearest power of two: scaling then rounds nothing.
        return Units(centre, float(np.exp2(np.rint(np.log2(spread)))) if spread > 0 else 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class MetricRows:
    """Lines of the metric's condition (cells of a 0/1 metric, else rows) and the groups they belong to.

    ``partitions`` have one code per line; ``sizes`` are the groups' rows whether or not the metric's condition holds;
    ``inside`` says which lines it holds for (all, unless the reference brings influence values, which count for every
    row); ``in_reference`` which are the named reference's; ``strata`` are what groups are compared within;
    ``design`` is there where rows have weights or clusters; ``lines_kept`` are the places of the lines among all that
    the pass gave, whose design is ``whole``. A metric that is no mean over rows has its
    columns in ``roles``.
    """

    measure: Measure
    lines: Lines
    partitions: tuple[Partition, ...]
    strata: Partition | None
    sizes: tuple[FloatArray, ...]
    inside: BoolArray | None
    in_reference: BoolArray | None
    rows: int
    used: int  # rows inside the metric's condition: those it is computed on
    dropped: Mapping[str, int]
    design: Design | None = None
    whole: Design | None = None
    roles: Mapping[str, FloatArray] = field(default_factory=dict)
    lines_kept: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))

    @property
    def counts(self) -> FloatArray:
        """Rows of each line inside the metric's condition, whatever they weigh."""
        rows = self.lines.mass if self.design is None else self.design.rows
        return rows if self.inside is None else rows * self.inside

    @property
    def mass(self) -> FloatArray:
        """What each line weighs inside the metric's condition."""
        return self.lines.mass if self.inside is None else self.lines.mass * self.inside

    def means(self, codes: IntArray, size: int) -> Binary | Real:
        """The groups 0..size-1 of ``codes``; lines with code -1, or outside the condition, are left out."""
        return self.lines.means(codes if self.inside is None else np.where(self.inside, codes, -1), size)

    def reached(self, rows: BoolArray) -> tuple[str, ...]:
        """The groups that hold any of these lines."""
        codes = [(partition, np.unique(partition.codes[rows & (self.mass > 0)])) for partition in self.partitions]
        return tuple(str(partition.groups[code]) for partition, some in codes for code in some if code >= 0)


FINE = 256.0  # K: bins per factor e of distance, where all groups are spread like all rows
FINEST = 2.0**26
LINES, SHARE = 2**23, 0.5  # bins of all groups together, and by row, beyond which rows are as few
WIDE = 10.0  # standard deviations on either side of a group's mean within which its rows are, about
MANY, PART = 50_000, 25_000_000  # lines from which they are counted in parts, and the rows of a part
FEW = 1_000  # rows of a group, up to which hardly any two share a bin
TIED = 1e-13  # a variance within a bin, of its squared width, that is rounding
STEP = 2.0**16  # weights are multiples of 1 / STEP: their sums are exact up to 1e11 rows


@dataclass(frozen=True, slots=True)
class Bins:
    """How rows are told apart: by their distance from ``centre`` on a logarithmic scale, from ``scale`` on."""

    centre: float
    scale: float
    fine: float
    low: float  # of all values
    high: float

    def keys(self, value: Expression) -> dict[str, Expression]:
        """What the pass groups by: the bin, from 0 up above the centre and from -1 down below it."""
        number = self._bin(value)
        return {"bin": either(value >= self.centre, number, -1.0 - number)}

    def sums(self, value: Expression) -> dict[str, Expression]:
        """What it sums: powers of the place within the bin, from 0 to about 1."""
        grown = (self._bin(value) * (1.0 / self.fine)).exp()  # the bin begins at scale * (grown - 1)
        place = (((value - self.centre).abs() * (1.0 / self.scale) + 1.0) / grown - 1.0) * self.fine
        return {"first": place, "second": place * place, "third": place * place * place}

    def parts(self, value: Expression, rows: float, cells: int) -> list[Expression]:
        """Conditions that tell bins apart, to count very many of them in parts; none where one pass will do."""
        number = 2.0 ** np.ceil(np.log2(rows / PART)) if cells * self.fine > MANY and rows > PART else 1.0
        code = self._bin(value)
        rest = code - (code * (1.0 / number)).floor() * number
        return [rest == float(i) for i in range(int(number))] if number > 1 else []

    def _bin(self, value: Expression) -> Expression:
        away = (value - self.centre).abs() * (1.0 / self.scale) + 1.0
        return (away.log() * self.fine).floor()

    def nodes(
        self, code: FloatArray, count: FloatArray, sums: Mapping[str, FloatArray]
    ) -> tuple[IntArray, FloatArray, FloatArray]:
        """The line each value comes from, the value and its weight."""
        line, place, weight = quadrature(count, *(sums[power] / count for power in ("first", "second", "third")))
        below = code[line] < 0
        grown = np.exp(np.where(below, -1.0 - code[line], code[line]) / self.fine)
        away = self.scale * (grown * (1.0 + place / self.fine) - 1.0)
        return line, np.clip(self.centre + np.where(below, -away, away), self.low, self.high), weight


def bins(count: FloatArray, first: FloatArray, second: FloatArray, low: float, high: float) -> Bins | None:
    """The bins for cells with these rows and sums of values and squares; None where they would be as many as rows.

    A group that is narrow beside its distance from the centre needs finer ones.
    """
    total = float(count.sum())
    centre = float(first.sum()) / total
    deviation = float(np.sqrt(max(float(second.sum()) / total - centre**2, 0.0)))
    scale = min((size for size in (deviation, centre - low, high - centre) if size > 0), default=0.0)
    if not scale > 0:
        return None
    mean = first / count
    own = np.sqrt(np.maximum(second / count - mean**2, 0.0))
    matters = (count > FEW) & (own > 1e-7 * np.maximum(np.abs(mean), 1e-300))  # else constant, up to rounding
    ratio = (np.abs(mean - centre) + scale)[matters] / own[matters]
    fine = FINE * 2.0 ** np.ceil(np.log2(max(1.0, float(ratio.max(initial=1.0)))))
    ends = [np.clip(mean + side * WIDE * own, low, high) - centre for side in (-1.0, 1.0)]
    reach = [np.sign(end) * np.log1p(np.abs(end) / scale) for end in ends]
    lines = float(np.minimum(count, 1.0 + fine * (reach[1] - reach[0])).sum())
    return Bins(centre, scale, fine, low, high) if fine <= FINEST and lines <= min(LINES, SHARE * total) else None


def quadrature(
    count: FloatArray, first: FloatArray, second: FloatArray, third: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Two values, or one, with the count and the first three moments of each line's rows: line, value and weight."""
    variance = np.maximum(second - first**2, 0.0)
    single = (count < 2) | (variance <= TIED)
    safe = np.where(single, 1.0, variance)
    skew = np.where(single, 0.0, (third - 3.0 * first * second + 2.0 * first**3) / safe)
    # Roots of t² - skew t - variance = 0, the larger in size first: no digits are lost.
    far = (skew + np.where(skew < 0, -1.0, 1.0) * np.sqrt(skew**2 + 4.0 * safe)) / 2.0
    near = -safe / far
    share = np.where(single, count, np.rint(count * far / (far - near) * STEP) / STEP)  # of the nearer one
    rest = count - share
    with np.errstate(invalid="ignore", divide="ignore"):
        shift = np.where(single, 0.0, -(share * near + rest * far) / count)  # what rounding did to the mean
    lines = np.arange(count.size)
    value = np.concatenate([first + np.where(single, 0.0, near + shift), first + far + shift])
    weight = np.concatenate([share, np.where(single, 0.0, rest)])
    kept = weight > 0
    return np.concatenate([lines, lines])[kept], value[kept], weight[kept]


# Rows of an engine up to which values are read: of more, bins with matched moments stand for them.
READ = 2_000_000


def rows_or_bins(source: Source, measure: Measure, request: Request) -> Sample:
    """Every row's value; where an engine holds very many, three passes and a few thousand values per group instead."""
    if not source.lazy or source.designed or measure.functional:
        return source.rows(request)
    value = number(request.values["value"] if "value" in request.values else request.numeric["value"])
    cells = source.cells(replace(request, values={"first": value, "second": value * value}))
    inside = measure.inside(cells)
    if cells.rows <= READ or not inside.any():
        return source.rows(request)
    ends = source.extremes(value, {})
    first, second = (cells.values[name][inside] for name in ("first", "second"))
    sorting = bins(cells.counts[inside], first, second, float(ends["low"][0]), float(ends["high"][0]))
    if sorting is None:
        return source.rows(request)
    numeric = request.numeric if cells.dropped else {}  # the first pass found nothing missing
    binned = replace(request, numeric=numeric, probabilities=(), keys={**request.keys, **sorting.keys(value)})
    apart = sorting.parts(value, cells.rows, cells.size) if source.in_process else []
    answer = source.cells(replace(binned, values=sorting.sums(value)), apart=apart)
    if answer.rows != cells.rows:
        raise DataError("data: the table changed between two passes; audit a copy that does not change.")
    line, values, weight = sorting.nodes(answer.columns["bin"].astype(float), answer.counts, answer.values)
    return Sample(
        columns={**{name: codes[line] for name, codes in answer.columns.items()}, "value": values},
        count=weight,
        size=line.size,
        partitions=tuple(replace(partition, codes=partition.codes[line]) for partition in answer.partitions),
        dropped=answer.dropped,
    )
