"""The compiled loops of `responses`; importing this module imports numba, so import it late.

Each turns a panel of scores, rows x columns, into the responses of a loss in place, and adds up
what the loss needs to know of every row. A row is read once and is short enough for the cache.
Sums may be taken in any order that vector instructions like, always the same one.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from recbench.linalg.compiled import F, compiled
from recbench.linalg.topk_kernel import Floats

Counts = npt.NDArray[np.int32] | npt.NDArray[np.int64]
LANES = 64
"""Columns that are worked on side by side where a sum is not enough, or tells enough."""
MOST_STEPS = 64
"""To a threshold; some ten are usual, but rounding may make the last ones go round in circles."""
FAST = {"contract", "reassoc", "nsz"}
"""Sums in lanes and fused products; NaN and infinity keep their meaning."""


def fast(function: F) -> F:
    """Compile a loop for vector instructions."""
    return compiled(function, fastmath=FAST, error_model="numpy")


@intrinsic
def _float_of_bits(typing: Any, bits: Any) -> Any:
    """The float32 that these 32 bits are."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), generate


# 2^f for |f| <= 1/2, relative error 2e-7: the series of e^(f ln 2).
_C0, _C1, _C2, _C3, _C4, _C5, _C6 = (
    np.float32(math.log(2) ** k / math.factorial(k)) for k in range(7)
)
_LOG2E = np.float32(1 / math.log(2))
_LOWEST = np.float32(-126)
_HALF = np.float32(0.5)


def exp(x: Any) -> Any:
    """e^x for x <= 0: as vector instructions in float32, the library's in float64."""
    raise NotImplementedError  # compiled code has the overload


@overload(exp)
def _exp(x: Any) -> Any:
    if x == types.float32:

        def exp32(x: Any) -> Any:
            t = x * _LOG2E
            t = max(_LOWEST, t)  # 1e-38 for anything less, and for NaN
            whole = np.int32(t - _HALF)  # towards zero, hence to the nearest
            f = t - np.float32(whole)
            p = _C0 + f * (_C1 + f * (_C2 + f * (_C3 + f * (_C4 + f * (_C5 + f * _C6)))))
            power: Any = _float_of_bits
            return p * power((whole + np.int32(127)) << np.int32(23))

        return exp32

    def exp64(x: Any) -> Any:
        return math.exp(x)

    return exp64


@fast
def _highest_of(row: Floats, lanes: Floats) -> Any:
    """The largest of some scores."""
    columns = len(row)
    whole = columns // LANES * LANES
    lanes[:] = row[0]
    for start in range(0, whole, LANES):
        part = row[start : start + LANES]
        for j in range(LANES):
            lanes[j] = max(lanes[j], part[j])
    most = row[0]
    for j in range(LANES):
        most = max(most, lanes[j])
    for j in range(whole, columns):
        most = max(most, row[j])
    return most


@fast
def highest(panel: Floats, tops: Floats) -> None:
    """The largest score of each row."""
    lanes = np.empty(LANES, panel.dtype)
    for r in range(panel.shape[0]):
        tops[r] = _highest_of(panel[r], lanes)


@fast
def not_below(panel: Floats, far: Floats, most: float, tops: Floats) -> None:
    """What no score of a row is above: as far as they may be, or, beyond `most`, the largest."""
    lanes = np.empty(LANES, panel.dtype)
    for r in range(panel.shape[0]):
        tops[r] = far[r] if far[r] <= most else _highest_of(panel[r], lanes)


@fast
def exponentials(panel: Floats, scale: Any, weights: Floats, tops: Floats, sums: Floats) -> None:
    """S -> w e^(scale (s - top)); Σ of them."""
    columns = panel.shape[1]
    for r in range(panel.shape[0]):
        row, top = panel[r], tops[r]
        total = panel.dtype.type(0)
        if len(weights):
            for j in range(columns):
                value = exp((row[j] - top) * scale) * weights[j]
                row[j] = value
                total += value
        else:
            for j in range(columns):
                value = exp((row[j] - top) * scale)
                row[j] = value
                total += value
        sums[r] = total


@fast
def hinges(panel: Floats, shift: Floats, slopes: Floats, values: Floats) -> None:
    """S -> 1 where s > shift, else 0; Σ of them and of [s - shift]₊."""
    zero, one = panel.dtype.type(0), panel.dtype.type(1)
    for r in range(panel.shape[0]):
        row, limit = panel[r], shift[r]
        count, total = zero, zero
        for j in range(panel.shape[1]):
            x = row[j] - limit
            step = one if x > zero else zero
            total += max(zero, x)
            count += step
            row[j] = step
        slopes[r], values[r] = count, total


@fast
def sigmoids(panel: Floats, shift: Floats, slopes: Floats, values: Floats) -> None:
    """S -> σ(s - shift); Σ of them and of log(1 + e^(s - shift)).

    A logarithm for every LANES columns: that of the product of 1 + e^-|x|, at most 2^LANES.
    """
    columns = panel.shape[1]
    zero, one = panel.dtype.type(0), panel.dtype.type(1)
    for r in range(panel.shape[0]):
        middle = shift[r]
        total, value = zero, zero
        for start in range(0, columns, LANES):
            part = panel[r, start : start + LANES]
            product = one
            for j in range(len(part)):
                x = part[j] - middle
                small = exp(-abs(x))  # the smaller of e^x and e^-x
                product *= one + small
                value += max(zero, x)
                slope = (one if x > zero else small) / (one + small)
                part[j] = slope
                total += slope
            value += math.log(product)
        slopes[r], values[r] = total, value


@fast
def squares(panel: Floats, slopes: Floats, values: Floats) -> None:
    """S -> s; Σ of them and of s² / 2."""
    half = panel.dtype.type(0.5)
    for r in range(panel.shape[0]):
        row = panel[r]
        total, value = panel.dtype.type(0), panel.dtype.type(0)
        for j in range(panel.shape[1]):
            total += row[j]
            value += row[j] * row[j]
        slopes[r], values[r] = total, value * half


@fast
def thresholds(
    scores: Floats, rows: int, columns: int, width: int, first: int, last: int, tops: Floats,
    out: Floats,
) -> None:  # fmt: skip
    """The τ of rows from `first` to before `last` with Σ [s - τ]₊ = 1; panels have this width.

    It is less than 1 below the largest score, so only those above that are looked at. From below,
    where more than enough is above τ, the line through those that are leads to the next τ; once
    nothing more falls out, it is exact.
    """
    row = np.empty(columns, scores.dtype)
    zero, one = scores.dtype.type(0), scores.dtype.type(1)
    for r in range(first, last):
        tau, before, kept = tops[r] - one, zero, 0
        for start in range(0, columns, width):
            stop = min(start + width, columns)
            panel = scores[rows * start + r * (stop - start) :][: stop - start]
            for some in range(0, len(panel), LANES):
                kept = _keep_above(tau, panel[some : some + LANES], row, kept)
        for _ in range(MOST_STEPS):
            total, count = zero, zero
            for j in range(kept):
                inside = row[j] > tau
                total += row[j] - tau if inside else zero
                count += one if inside else zero
            if count == zero:
                break
            tau += (total - one) / count  # also the last time: the first steps are long ones
            if count == before:
                break
            before = count
            if 2 * count < kept:
                kept = _keep_above(tau, row[:kept], row, 0)
        out[r] = tau


@fast
def _keep_above(limit: Any, some: Floats, row: Floats, kept: int) -> int:
    """Put the scores above a limit behind those that are kept already; how many these are then."""
    count = some.dtype.type(0)
    for j in range(len(some)):
        count += 1 if some[j] > limit else 0
    if count > 0:
        for j in range(len(some)):  # all are written, and those below written over
            row[kept] = some[j]
            kept += some[j] > limit
    return kept


@fast
def excesses(panel: Floats, shift: Floats, slopes: Floats, values: Floats) -> None:
    """S -> [s - shift]₊; Σ of them and of their squares / 2."""
    zero, half = panel.dtype.type(0), panel.dtype.type(0.5)
    for r in range(panel.shape[0]):
        row, limit = panel[r], shift[r]
        total, value = zero, zero
        for j in range(panel.shape[1]):
            x = row[j] - limit
            x = max(zero, x)
            row[j] = x
            total += x
            value += x * x
        slopes[r], values[r] = total, value * half


@fast
def above(panel: Floats, shift: Floats, counts: Floats) -> None:
    """How many scores of each row are above the shift."""
    zero, one = panel.dtype.type(0), panel.dtype.type(1)
    for r in range(panel.shape[0]):
        row, limit, count = panel[r], shift[r], zero
        for j in range(panel.shape[1]):
            count += one if row[j] > limit else zero
        counts[r] = count


@fast
def only(panel: Floats, tops: Floats, weights: Floats) -> None:
    """S -> w at the first score of the row that is its top, else 0."""
    zero = panel.dtype.type(0)
    for r in range(panel.shape[0]):
        row, weight = panel[r], weights[r]
        for j in range(panel.shape[1]):
            here = row[j] == tops[r]
            row[j] = weight if here else zero
            weight = zero if here else weight


@fast
def collect(
    panel: Floats, starts: npt.NDArray[np.int32], columns: npt.NDArray[np.int32], values: Floats
) -> bool:
    """The responses above 0, row by row; whether there is room for all of them."""
    zero, found = panel.dtype.type(0), 0
    for r in range(panel.shape[0]):
        starts[r] = found
        for start in range(0, panel.shape[1], LANES):
            part, total = panel[r, start : start + LANES], zero
            for j in range(len(part)):
                total += part[j]
            if total > zero:
                for j in range(len(part)):
                    if part[j] > zero:
                        if found == len(values):
                            return False
                        columns[found], values[found] = start + j, part[j]
                        found += 1
    starts[panel.shape[0]] = found
    return True


@fast
def weighed(first: int, last: int, weights: Floats, parts: Floats, out: Floats) -> None:
    """Rows of Σ weight x part, in the order of the parts."""
    for r in range(first, last):
        out[r] = 0
        for p in range(parts.shape[0]):
            weight = weights[p, r]
            for k in range(out.shape[1]):
                out[r, k] += weight * parts[p, r, k]


@fast
def contained(
    starts: npt.NDArray[np.int64], columns: npt.NDArray[np.int32], rows: npt.NDArray[np.int64],
    wanted: npt.NDArray[np.int32], out: npt.NDArray[np.bool_],
) -> None:  # fmt: skip
    """Whether each of some rows of a matrix stores the column beside; columns ascend in a row."""
    for e in range(len(rows)):
        low, high = starts[rows[e]], starts[rows[e] + 1]
        while low < high:
            middle = (low + high) // 2
            if columns[middle] < wanted[e]:
                low = middle + 1
            else:
                high = middle
        out[e] = low < starts[rows[e] + 1] and columns[low] == wanted[e]


@fast
def dots(
    a: Floats, c: Floats, starts: npt.NDArray[np.int64], columns: npt.NDArray[np.int32], out: Floats
) -> None:
    """Scores of stored cells."""
    for r in range(a.shape[0]):
        for e in range(starts[r], starts[r + 1]):
            x, y = a[r], c[columns[e]]
            total = a.dtype.type(0)
            for k in range(a.shape[1]):
                total += x[k] * y[k]
            out[e] = total


@fast
def add_to_rows(
    starts: Counts, columns: npt.NDArray[np.int32], values: Floats, c: Floats, out: Floats
) -> None:
    """out[r] += value x c[column], over the stored cells of a row."""
    for r in range(len(starts) - 1):
        target = out[r]
        for e in range(starts[r], starts[r + 1]):
            value, source = values[e], c[columns[e]]
            for k in range(out.shape[1]):
                target[k] += value * source[k]


@fast
def add_to_columns(
    starts: Counts, columns: npt.NDArray[np.int32], values: Floats, a: Floats, out: Floats
) -> None:
    """out[column] += value x a[r], over the stored cells of each row."""
    for r in range(len(starts) - 1):
        source = a[r]
        for e in range(starts[r], starts[r + 1]):
            value, target = values[e], out[columns[e]]
            for k in range(out.shape[1]):
                target[k] += value * source[k]


@fast
def normalise(first: int, last: int, x: Floats, least: Any, unit: Floats, inverse: Floats) -> None:
    """Rows over their lengths, and one over these; rows shorter than `least` become zeros."""
    zero, one = x.dtype.type(0), x.dtype.type(1)
    for r in range(first, last):
        square = zero
        for k in range(x.shape[1]):
            square += x[r, k] * x[r, k]
        length = math.sqrt(square)
        scale = one / length if length >= least else zero
        inverse[r] = scale
        for k in range(x.shape[1]):
            unit[r, k] = x[r, k] * scale


@fast
def shorten(first: int, last: int, x: Floats, longest: Any) -> None:
    """Rows that are longer than `longest` are made as long as that."""
    for r in range(first, last):
        square = x.dtype.type(0)
        for k in range(x.shape[1]):
            square += x[r, k] * x[r, k]
        if square > longest * longest:
            scale = longest / math.sqrt(square)
            for k in range(x.shape[1]):
                x[r, k] *= scale


@fast
def normalise_back(first: int, last: int, gradient: Floats, unit: Floats, inverse: Floats) -> None:
    """G -> (g - (g·u) u) over the length, by row."""
    for r in range(first, last):
        along = unit.dtype.type(0)
        for k in range(unit.shape[1]):
            along += gradient[r, k] * unit[r, k]
        for k in range(unit.shape[1]):
            gradient[r, k] = (gradient[r, k] - along * unit[r, k]) * inverse[r]


@fast
def add_rows(out: Floats, rows: npt.NDArray[np.int32], values: Floats) -> None:
    """out[rows[r]] += values[r], one after the other."""
    for r in range(len(rows)):
        target, source = out[rows[r]], values[r]
        for k in range(out.shape[1]):
            target[k] += source[k]


@fast
def dots_own(a: Floats, c: Floats, columns: npt.NDArray[np.int32], out: Floats) -> None:
    """Scores of each row with columns of its own."""
    for r in range(a.shape[0]):
        for j in range(columns.shape[1]):
            x, y = a[r], c[columns[r, j]]
            total = a.dtype.type(0)
            for k in range(a.shape[1]):
                total += x[k] * y[k]
            out[r, j] = total


@fast
def pull_own(g: Floats, c: Floats, columns: npt.NDArray[np.int32], out: Floats) -> None:
    """out[r] = Σ g_rj c[column of (r, j)]."""
    for r in range(out.shape[0]):
        target = out[r]
        target[:] = 0
        for j in range(columns.shape[1]):
            value, source = g[r, j], c[columns[r, j]]
            if value != 0:  # hinges have few that are not
                for k in range(out.shape[1]):
                    target[k] += value * source[k]


@fast
def push_own(g: Floats, a: Floats, columns: npt.NDArray[np.int32], out: Floats) -> None:
    """out[column of (r, j)] += g_rj a[r]."""
    for r in range(a.shape[0]):
        source = a[r]
        for j in range(columns.shape[1]):
            value, target = g[r, j], out[columns[r, j]]
            if value != 0:
                for k in range(out.shape[1]):
                    target[k] += value * source[k]
