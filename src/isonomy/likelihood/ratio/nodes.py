"""Very many rows as a few thousand weighted values per group, known by one grouped pass: bins with matched moments.

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
from dataclasses import dataclass

import numpy as np

from isonomy.frames.expressions import Expression, either
from isonomy.numerics.arrays import FloatArray, IntArray

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
