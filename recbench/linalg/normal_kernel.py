"""The compiled loops of `normal`; importing this module imports numba, so import it late.

A row is solved by one thread, in an order that depends on nothing but the row.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from recbench.linalg.cholesky_kernel import LANES, SIDE, Floats, add_products, compiled, solve

Columns = npt.NDArray[np.int32]

STRETCH = 256
"""How many entries of a long row are turned into columns at a time: they must stay in cache."""


class System(NamedTuple):
    """The normal equations of every row of one side, in the terms of `normal`.

    Factors of the other side are given in a basis where their Gram matrix is diagonal. Numbers
    are of one floating-point type.
    """

    starts: npt.NDArray[np.int64]
    columns: Columns
    other: Floats
    """q: the other side's factors."""
    spectrum: Floats
    """The diagonal of their (weighted) Gram matrix."""
    total: Floats
    """t: their (weighted) sum."""
    gram: Floats
    """c0 of each row."""
    push: Floats
    """d0 of each row."""
    ridge: Floats
    """r of each row."""
    entry: Floats
    """s c1 of each row."""
    pull: Floats
    """s d1 of each row."""
    roots: Floats
    """The root of the share s_i of each column; nothing where all are one."""


class Room(NamedTuple):
    """What one thread needs to solve one row, for at most as many unknowns as factors."""

    rows: Floats
    """Scaled factors of the entries: one a row, or one a column for rows with many entries."""
    square: Floats
    """The equations' lower triangle, bordered below by their right-hand side."""
    lower: Floats
    """Its Cholesky factor."""
    inverse: Floats
    """One over the diagonal of that factor."""
    root: Floats
    """D^-1/2."""
    border: Floats
    """-d0 D^-1/2 t."""
    y: Floats
    """The scaled solution."""
    z: Floats
    """The unknowns of the equations that are solved."""
    tile: Floats


class Slate(NamedTuple):
    """What one thread needs for conjugate gradients on one row."""

    root: Floats
    border: Floats
    y: Floats
    residual: Floats
    direction: Floats
    image: Floats


@compiled
def _slate(factors: int, like: Floats) -> Slate:
    """Allocate the slate of a thread."""
    return Slate(
        np.zeros(factors, like.dtype),
        np.zeros(factors, like.dtype),
        np.zeros(factors, like.dtype),
        np.zeros(factors, like.dtype),
        np.zeros(factors, like.dtype),
        np.zeros(factors, like.dtype),
    )


@compiled
def _room(factors: int, like: Floats) -> Room:
    """Allocate the room of a thread."""
    side, wide = factors + SIDE, (factors + LANES - 1) // LANES * LANES
    # Rows a power of two apart would fall into a few sets of the cache: LANES more avoid that.
    step = max(wide, STRETCH) + LANES
    return Room(
        np.zeros((side, step), like.dtype),
        np.zeros((side, side), like.dtype),
        np.zeros((side, wide + LANES), like.dtype),
        np.zeros(side, like.dtype),
        np.zeros(wide, like.dtype),
        np.zeros(wide, like.dtype),
        np.zeros(wide, like.dtype),
        np.zeros(side, like.dtype),
        np.zeros((SIDE, SIDE), like.dtype),
    )


@compiled
def _few(columns: Columns, other: Floats, roots: Floats, entry: Any, pull: Any, room: Room) -> None:
    """Find y of a row with fewer entries than factors: one unknown for each entry.

    (I + c1 X Xᵀ) z = d1 + c1 d0 X D^-1/2 t and y = Xᵀ z - d0 D^-1/2 t, where X = Q D^-1/2. With
    shares of columns, X and d1 are their roots times that.
    """
    rows, root, border, square, y, z = (
        room.rows, room.root, room.border, room.square, room.y, room.z,
    )  # fmt: skip
    size, factors = len(columns), other.shape[1]
    padded = (size + SIDE) // SIDE * SIDE
    for i in range(size):
        c = columns[i]
        for k in range(factors):
            rows[i, k] = other[c, k] * root[k]
        if len(roots):
            for k in range(factors):
                rows[i, k] *= roots[c]
        for k in range(factors, len(y)):
            rows[i, k] = 0
    # The border as one more row gives c1 d0 X D^-1/2 t together with the products.
    for k in range(len(y)):
        rows[size, k] = border[k]
        y[k] = border[k]
    for i in range(size + 1, padded):
        for k in range(len(y)):
            rows[i, k] = 0
    add_products(rows, padded, len(y), entry, True, square, room.tile)
    for i in range(size):
        own = pull * roots[columns[i]] if len(roots) else pull
        square[size, i] = own - square[size, i]
    solve(size, square, room.lower, room.inverse, room.tile, z)
    for i in range(size):
        for k in range(factors):
            y[k] += z[i] * rows[i, k]


@compiled
def _many(
    columns: Columns, other: Floats, roots: Floats, entry: Any, pull: Any, room: Room
) -> None:
    """Find y of a row with as many entries as factors: (I + c1 XᵀX) y = d1 Xᵀ1 - d0 D^-1/2 t."""
    rows, root, square, y, z = room.rows, room.root, room.square, room.y, room.z
    factors = other.shape[1]
    padded = (factors + SIDE - 1) // SIDE * SIDE
    for k in range(factors):
        y[k] = 0
    for first in range(0, len(columns), STRETCH):
        count = min(len(columns) - first, STRETCH)
        width = (count + LANES - 1) // LANES * LANES
        for k in range(padded):
            for i in range(count, width):
                rows[k, i] = 0
        for i in range(count):
            c = columns[first + i]
            if len(roots):
                for k in range(factors):
                    scaled = other[c, k] * root[k] * roots[c]
                    rows[k, i] = scaled
                    y[k] += scaled * roots[c]
                continue
            for k in range(factors):
                scaled = other[c, k] * root[k]
                rows[k, i] = scaled
                y[k] += scaled
        add_products(rows, padded, width, entry, first == 0, square, room.tile)
    for k in range(factors):
        square[factors, k] = pull * y[k] + room.border[k]
    solve(factors, square, room.lower, room.inverse, room.tile, z)
    for k in range(factors):
        y[k] = z[k]


@compiled
def _none(columns: Columns, other: Floats, roots: Floats, pull: Any, room: Room) -> None:
    """Find y where c1 is zero and nothing is left to solve."""
    y, root, border = room.y, room.root, room.border
    for k in range(len(y)):
        y[k] = 0
    for i in range(len(columns)):
        c = columns[i]
        if len(roots):
            for k in range(other.shape[1]):
                y[k] += other[c, k] * roots[c] * roots[c]
            continue
        for k in range(other.shape[1]):
            y[k] += other[c, k]
    for k in range(len(y)):
        y[k] = pull * y[k] * root[k] + border[k]


@compiled
def _scale(row: int, system: System, floor: Any, root: Floats, border: Floats) -> None:
    """Find D^-1/2 and the border of a row; zero where D drowns in the rounding of G."""
    gram, ridge, push = system.gram[row], system.ridge[row], system.push[row]
    spectrum, total = system.spectrum, system.total
    zero, one = root.dtype.type(0), root.dtype.type(1)
    for k in range(len(spectrum)):
        d = gram * spectrum[k] + ridge
        root[k] = one / np.sqrt(d) if d > gram * floor else zero
    for k in range(len(spectrum)):
        border[k] = -push * total[k] * root[k]


@compiled
def _report(row: int, columns: Columns, system: System, x: Floats, report: Floats) -> None:
    """Note r |x|² and, where there is room for it, the rest of the row's objective."""
    square = 0.0
    for k in range(len(x)):
        square += x[k] * x[k]
    report[row, 0] = system.ridge[row] * square
    if report.shape[1] == 1:
        return
    other, gram, push = system.other, system.gram[row], system.push[row]
    entry, pull, roots = system.entry[row], system.pull[row], system.roots
    loss = 0.0
    for k in range(len(x)):
        loss += x[k] * (gram * system.spectrum[k] * x[k] + 2 * push * system.total[k])
    for i in range(len(columns)):
        c, score = columns[i], x.dtype.type(0)
        for k in range(len(x)):
            score += other[c, k] * x[k]
        part = score * (entry * score - 2 * pull)
        loss += part * roots[c] * roots[c] if len(roots) else part
    report[row, 1] = loss


@compiled
def solve_rows(
    first: int, last: int, floor: Any, system: System, factors: Floats, report: Floats
) -> None:
    """Solve the normal equations of some rows.

    `report` gets each row's penalty r |x|² and, with a second column, the rest of its objective.
    """
    room = _room(factors.shape[1], factors)
    for row in range(first, last):
        columns, x = system.columns[system.starts[row] : system.starts[row + 1]], factors[row]
        entry, pull = system.entry[row], system.pull[row]
        _scale(row, system, floor, room.root, room.border)
        if entry == 0:
            _none(columns, system.other, system.roots, pull, room)
        elif len(columns) < len(x):
            _few(columns, system.other, system.roots, entry, pull, room)
        else:
            _many(columns, system.other, system.roots, entry, pull, room)
        for k in range(len(x)):
            x[k] = room.y[k] * room.root[k]
        _report(row, columns, system, x, report)


@compiled
def _add_shared(
    columns: Columns, other: Floats, roots: Floats, entry: Any, pull: Any, x: Floats, out: Floats
) -> None:
    """Add Σ s q (d1 - c1 q·x), with the shares s of the columns."""
    for i in range(len(columns)):
        c, score = columns[i], x.dtype.type(0)
        for k in range(len(x)):
            score += other[c, k] * x[k]
        slope = (pull - entry * score) * roots[c] * roots[c]
        for k in range(len(x)):
            out[k] += slope * other[c, k]


@compiled
def _add_gradient(
    columns: Columns, other: Floats, roots: Floats, entry: Any, pull: Any, x: Floats, out: Floats
) -> None:
    """Add Σ q (d1 - c1 q·x), four entries at a time."""
    if len(roots):
        _add_shared(columns, other, roots, entry, pull, x, out)
        return
    zero, whole = x.dtype.type(0), len(columns) // SIDE * SIDE
    for i in range(0, whole, SIDE):
        q0, q1 = other[columns[i]], other[columns[i + 1]]
        q2, q3 = other[columns[i + 2]], other[columns[i + 3]]
        s0 = s1 = s2 = s3 = zero
        for k in range(len(x)):
            s0 += q0[k] * x[k]
            s1 += q1[k] * x[k]
            s2 += q2[k] * x[k]
            s3 += q3[k] * x[k]
        s0, s1 = pull - entry * s0, pull - entry * s1
        s2, s3 = pull - entry * s2, pull - entry * s3
        for k in range(len(x)):
            out[k] += s0 * q0[k] + s1 * q1[k] + s2 * q2[k] + s3 * q3[k]
    for i in range(whole, len(columns)):
        q0, s0 = other[columns[i]], zero
        for k in range(len(x)):
            s0 += q0[k] * x[k]
        s0 = pull - entry * s0
        for k in range(len(x)):
            out[k] += s0 * q0[k]


@compiled
def _conjugate(
    columns: Columns, system: System, entry: Any, pull: Any, steps: int, x: Floats, slate: Slate
) -> None:
    """Improve x by conjugate gradients on (I + c1 XᵀX) y = d1 Xᵀ1 - d0 D^-1/2 t."""
    root, y, residual = slate.root, slate.y, slate.residual
    direction, image, zero = slate.direction, slate.image, x.dtype.type(0)
    least = np.finfo(x.dtype).tiny
    for k in range(len(x)):
        residual[k] = 0
    _add_gradient(columns, system.other, system.roots, entry, pull, x, residual)
    square = zero
    for k in range(len(x)):
        y[k] = x[k] / root[k] if root[k] > 0 else zero
        residual[k] = residual[k] * root[k] + slate.border[k] - y[k]
        direction[k] = residual[k]
        square += residual[k] * residual[k]
    for _ in range(steps):
        if square < least:  # below that, quotients of squares are noise, or 0 / 0
            break
        for k in range(len(x)):
            x[k] = direction[k] * root[k]
            image[k] = 0
        _add_gradient(columns, system.other, system.roots, -entry, zero, x, image)
        bend = zero
        for k in range(len(x)):
            image[k] = direction[k] + image[k] * root[k]
            bend += direction[k] * image[k]
        length, before = square / bend, square
        square = zero
        for k in range(len(x)):
            y[k] += length * direction[k]
            residual[k] -= length * image[k]
            square += residual[k] * residual[k]
        for k in range(len(x)):
            direction[k] = residual[k] + square / before * direction[k]
    for k in range(len(x)):
        x[k] = y[k] * root[k]


@compiled
def improve_rows(
    first: int, last: int, steps: int, floor: Any, system: System, factors: Floats, report: Floats
) -> None:
    """Take a few steps of conjugate gradients from the present factors of some rows.

    D has preconditioned the equations. `report` is as in `solve_rows`.
    """
    slate = _slate(factors.shape[1], factors)
    for row in range(first, last):
        columns, x = system.columns[system.starts[row] : system.starts[row + 1]], factors[row]
        _scale(row, system, floor, slate.root, slate.border)
        _conjugate(columns, system, system.entry[row], system.pull[row], steps, x, slate)
        _report(row, columns, system, x, report)
