"""The compiled loops of `normal`; importing this module imports numba, so import it late.

A row is solved by one thread, in an order that depends on nothing but the row.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from recbench.linalg.cholesky_kernel import (
    Floats,
    add_products,
    compiled,
    solve,
    stride,
    whole,
)
from recbench.linalg.registers_kernel import SIDE, transpose

Columns = npt.NDArray[np.int32]

STRETCH = 128
"""How many entries of a long row are multiplied at a time: they must stay in cache."""

AT_ONCE = 4
"""Entries whose gradients are added up together."""


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
    """Scaled factors of some entries, one a row."""
    panel: Floats
    """The same of all entries of a row with few, one a column."""
    square: Floats
    """The upper triangle of the equations, then their Cholesky factor."""
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
    wide, step = whole(factors), stride(factors)
    return Room(
        np.zeros((STRETCH, step), like.dtype),
        np.zeros((wide, step), like.dtype),
        np.zeros((wide, step), like.dtype),
        np.zeros(wide, like.dtype),
        np.zeros(wide, like.dtype),
        np.zeros(wide, like.dtype),
        np.zeros(wide, like.dtype),
        np.zeros(wide, like.dtype),
    )


@compiled
def _gather(columns: Columns, other: Floats, roots: Floats, root: Floats, rows: Floats) -> None:
    """Write rows of X = Q D^-1/2, times the roots of shares."""
    for i in range(len(columns)):
        row, theirs = rows[i], other[columns[i]]
        if len(roots):
            share = roots[columns[i]]
            for k in range(len(theirs)):
                row[k] = theirs[k] * root[k] * share
            continue
        for k in range(len(theirs)):
            row[k] = theirs[k] * root[k]


@compiled
def _few(columns: Columns, other: Floats, roots: Floats, entry: Any, pull: Any, room: Room) -> None:
    """Find y of a row with fewer entries than factors: one unknown for each entry.

    (I + c1 X Xᵀ) z = d1 + c1 d0 X D^-1/2 t and y = Xᵀ z - d0 D^-1/2 t, where X = Q D^-1/2. With
    shares of columns, X and d1 are their roots times that.
    """
    rows, square, y, z, border = room.rows, room.square, room.y, room.z, room.border
    size, factors = len(columns), other.shape[1]
    for first in range(0, size, SIDE):
        some = columns[first : first + SIDE]
        _gather(some, other, roots, room.root, rows)
        for i in range(len(some)):
            pushed, row = y.dtype.type(0), rows[i]
            for k in range(factors):
                pushed += row[k] * border[k]
            own = pull * roots[some[i]] if len(roots) else pull
            z[first + i] = own - entry * pushed
        for i in range(len(some), SIDE):
            for k in range(factors):
                rows[i, k] = 0
            z[first + i] = 0
        for k in range(0, factors, SIDE):
            transpose(rows, k, room.panel, first)
    add_products(room.panel, factors, size, entry, True, square)
    solve(size, square, room.inverse, z)
    for k in range(factors):
        y[k] = 0
    for i in range(size):
        theirs, weight = other[columns[i]], z[i]
        if len(roots):
            weight *= roots[columns[i]]
        for k in range(factors):
            y[k] += weight * theirs[k]
    for k in range(factors):
        y[k] = y[k] * room.root[k] + border[k]


@compiled
def _many(
    columns: Columns, other: Floats, roots: Floats, entry: Any, pull: Any, room: Room
) -> None:
    """Find y of a row with as many entries as factors: (I + c1 XᵀX) y = d1 Xᵀ1 - d0 D^-1/2 t."""
    rows, square, y, z = room.rows, room.square, room.y, room.z
    factors = other.shape[1]
    for k in range(factors):
        y[k] = 0
    for first in range(0, len(columns), STRETCH):
        some = columns[first : first + STRETCH]
        _gather(some, other, roots, room.root, rows)
        for i in range(len(some)):
            row = rows[i]
            share = roots[some[i]] if len(roots) else y.dtype.type(1)
            for k in range(factors):
                y[k] += share * row[k]
        add_products(rows, len(some), factors, entry, first == 0, square)
    for k in range(factors):
        z[k] = pull * y[k] + room.border[k]
    for k in range(factors, len(z)):
        z[k] = 0
    solve(factors, square, room.inverse, z)
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
    zero, even = x.dtype.type(0), len(columns) // AT_ONCE * AT_ONCE
    for i in range(0, even, AT_ONCE):
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
    for i in range(even, len(columns)):
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
