"""Tiles of matrices worked on in registers; imports numba, so import it late.

Most are squares of SIDE x SIDE numbers. A tile is a stack of vectors, one for each of its rows. A
product of two tall matrices then takes, for each row of them, one load and SIDE multiplications of
a vector by a number: nothing goes to memory in between, and nothing is added up across the lanes of
a vector. Loops over arrays do not tell the compiler so; the functions here hand it the vectors
themselves.

Arrays are stored by rows and have room for whole tiles. Nobody checks that: what is here is called
by kernels, which know. Every number is the same sum in the same order, however wide the vectors of
a machine are.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils as untyped
from numba.extending import intrinsic

cgutils: Any = untyped

SIDE = 16

SUM_BYTES = 16 * 64 if llvm.get_host_cpu_features().get("avx512f") else 8 * 32
"""Half of all registers, which is what sums may take: further ones would go to memory."""

TALL = 6
"""Rows of a tile of a product of long matrices."""

WIDE_BYTES = 256 if SUM_BYTES == 1024 else 64
"""Bytes of its rows: its sums, a row of the right factor and a number leave no register idle."""

CHUNK_BYTES = 256
"""What `combine` makes of a row: few enough registers for any processor."""

LANE, PLACE = ir.IntType(32), ir.IntType(64)
"""Of what kind the numbers of lanes are, and those of rows and columns."""
TOP = PLACE(0)
"""The only row of a vector."""

FUSED = ("contract",)
"""A multiplication and the addition of its product may be one instruction."""


def emitted(function: Callable[..., Any]) -> Any:
    """Let compiled code call what a function generates for arguments of such types."""
    return intrinsic(function)


class Numbers:
    """A matrix that an intrinsic was given: its vectors, and instructions on them."""

    def __init__(
        self, context: Any, builder: Any, kind: Any, array: Any, lanes: int = SIDE
    ) -> None:
        view = context.make_array(kind)(context, builder, array)
        self.builder, self.data, self.lanes = builder, view.data, lanes
        self.number = context.get_value_type(kind.dtype)
        self.vector = ir.VectorType(self.number, lanes)
        self.bytes = context.get_abi_sizeof(self.number)
        self.height = self.step = PLACE(0)  # of what has no rows
        if kind.ndim > 1:
            self.height = cgutils.unpack_tuple(builder, view.shape)[0]
            step = cgutils.unpack_tuple(builder, view.strides)[0]
            self.step = builder.sdiv(step, PLACE(self.bytes))

    def at(self, row: Any, column: Any) -> Any:
        """Where an entry is."""
        start = self.builder.add(self.builder.mul(row, self.step), column)
        return self.builder.gep(self.data, [start])

    def entry(self, row: Any, column: Any) -> Any:
        """One number."""
        return self.builder.load(self.at(row, column))

    def load(self, row: Any, column: Any) -> Any:
        """The vector that begins at an entry."""
        vector = self.builder.load(self._vector_at(row, column))
        vector.align = self.bytes
        return vector

    def store(self, vector: Any, row: Any, column: Any) -> None:
        """Write a vector that begins at an entry."""
        self.builder.store(vector, self._vector_at(row, column)).align = self.bytes

    def _vector_at(self, row: Any, column: Any) -> Any:
        return self.builder.bitcast(self.at(row, column), self.vector.as_pointer())

    def root(self) -> Any:
        """The function that takes square roots."""
        kind = ir.FunctionType(self.number, [self.number])
        name = f"llvm.sqrt.f{8 * self.bytes}"
        return cgutils.get_or_insert_function(self.builder.module, kind, name)

    def after(self, start: Any, steps: int) -> Any:
        """A row or column further on."""
        return self.builder.add(start, PLACE(steps))

    def zeros(self) -> Any:
        """A vector of them."""
        return self.vector([0.0] * self.lanes)

    def sum(self) -> Any:
        """A vector that is added to, zero at first; it gets a register."""
        total = cgutils.alloca_once(self.builder, self.vector)
        self.builder.store(self.zeros(), total)
        return total

    def add(self, more: Any, total: Any) -> None:
        """Add to such a vector."""
        self.builder.store(self.plus(more, self.builder.load(total)), total)

    def spread(self, number: Any) -> Any:
        """A vector of one number."""
        lone = self.builder.insert_element(self.vector(ir.Undefined), number, LANE(0))
        return self.mixed(lone, lone, [0] * self.lanes)

    def mixed(self, a: Any, b: Any, lanes: list[int]) -> Any:
        """Lanes of a vector and, counted on from its last one, of another."""
        return self.builder.shuffle_vector(a, b, ir.VectorType(LANE, self.lanes)(lanes))

    def transposed(self, tile: list[Any]) -> list[Any]:
        """Columns for rows."""
        # Dealing the rows of two halves out like cards, again and again, comes to that.
        low = [lane // 2 + lane % 2 * SIDE for lane in range(SIDE)]
        high = [lane + SIDE // 2 for lane in low]
        for _ in range(SIDE.bit_length() - 1):
            pairs = zip(tile[: SIDE // 2], tile[SIDE // 2 :], strict=True)
            tile = [self.mixed(a, b, lanes) for a, b in pairs for lanes in (low, high)]
        return tile

    def times(self, a: Any, b: Any) -> Any:
        """The product a b."""
        return self.builder.fmul(a, b, flags=FUSED)

    def plus(self, a: Any, b: Any) -> Any:
        """The sum a + b."""
        return self.builder.fadd(a, b, flags=FUSED)

    def less(self, a: Any, b: Any) -> Any:
        """The difference a - b."""
        return self.builder.fsub(a, b, flags=FUSED)


@emitted
def add_product(
    typing: Any, x: Any, count: Any, i: Any, j: Any, factor: Any, fresh: Any, out: Any
) -> Any:
    """Add factor · AᵀB to the tile of `out` at (i, j) or, if it is fresh, set it to that.

    A and B are the SIDE columns of x from i and from j on, of its first `count` rows.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, count, i, j, factor, fresh, _ = arguments
        source = Numbers(context, builder, x, arguments[0])
        target = Numbers(context, builder, out, arguments[-1])
        scale = source.spread(factor)
        for p, product in _products(builder, count, source, i, source, j):
            row = target.after(i, p)
            before = builder.select(fresh, source.zeros(), target.load(row, j))
            target.store(source.plus(source.times(scale, product), before), row, j)
        return context.get_dummy_value()

    size = types.int64
    return types.void(x, size, size, size, x.dtype, types.boolean, out), generate


@emitted
def set_product(typing: Any, left: Any, right: Any, out: Any, j: Any) -> Any:
    """Set the SIDE columns of `out` from j on to AᵀB, for A and B of SIDE columns."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        a, b, target = (
            Numbers(context, builder, kind, arguments[at])
            for at, kind in enumerate((left, right, out))
        )
        for p, product in _products(builder, a.height, a, TOP, b, TOP):
            target.store(product, PLACE(p), arguments[3])
        return context.get_dummy_value()

    return types.void(left, right, out, types.int64), generate


def _products(
    builder: Any, count: Any, left: Numbers, i: Any, right: Numbers, j: Any
) -> Iterator[tuple[int, Any]]:
    """The rows of a tile AᵀB, as many at a time as there are registers for.

    A are the SIDE columns of the left from i on, B those of the right from j on, of `count` rows.
    """
    at_once = SUM_BYTES // (SIDE * left.bytes)
    for first in range(0, SIDE, at_once):
        sums = [left.sum() for _ in range(at_once)]
        with cgutils.for_range(builder, count) as loop:
            vector = right.load(loop.index, j)
            for p, total in enumerate(sums, start=first):
                number = left.entry(loop.index, left.after(i, p))
                left.add(left.times(left.spread(number), vector), total)
        for p, total in enumerate(sums, start=first):
            yield p, builder.load(total)


@emitted
def product_of_rows(
    typing: Any, left: Any, i: Any, right: Any, j: Any, wide: Any, out: Any, r: Any, c: Any
) -> Any:
    """Set a tile of `out` at (r, c) to TALL rows of A from i on times columns of B from j on.

    All rows of B count. A tile is SIDE numbers wide or, if it is a wide one, WIDE_BYTES.
    """
    return _product_tile(left, i, right, j, wide, out, r, c, turned=False)


@emitted
def product_of_columns(
    typing: Any, left: Any, i: Any, right: Any, j: Any, wide: Any, out: Any, r: Any, c: Any
) -> Any:
    """The same with Aᵀ for A: TALL columns of A from i on."""
    return _product_tile(left, i, right, j, wide, out, r, c, turned=True)


def _product_tile(
    left: Any, i: Any, right: Any, j: Any, wide: Any, out: Any, r: Any, c: Any, *, turned: bool
) -> Any:
    size = types.int64

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, i, _, j, wide, _, r, c = arguments

        def tile(lanes: int) -> None:
            a, b, target = (
                Numbers(context, builder, kind, arguments[at], lanes)
                for kind, at in ((left, 0), (right, 2), (out, 5))
            )
            rows = [a.after(i, p) for p in range(TALL)]
            sums = [a.sum() for _ in rows]
            with cgutils.for_range(builder, b.height) as loop:
                vector, k = b.load(loop.index, j), loop.index
                for row, total in zip(rows, sums, strict=True):
                    number = a.entry(k, row) if turned else a.entry(row, k)
                    a.add(a.times(a.spread(number), vector), total)
            for p, total in enumerate(sums):
                target.store(builder.load(total), target.after(r, p), c)

        with builder.if_else(wide) as (then, otherwise):
            with then:
                tile(max(SIDE, WIDE_BYTES // Numbers(context, builder, left, arguments[0]).bytes))
            with otherwise:
                tile(SIDE)
        return context.get_dummy_value()

    return types.void(left, size, right, size, types.boolean, out, size, size), generate


@emitted
def factorise(typing: Any, u: Any, i: Any, inverse: Any, z: Any) -> Any:
    """Turn the tile of u at (i, i), a symmetric C, into the upper triangle T with TᵀT = C.

    What is below its diagonal then means nothing. `inverse` receives one over its diagonal, and z,
    both from i on, the solution of Tᵀz = z.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        matrix, inverses, vector = (
            Numbers(context, builder, kind, arguments[at])
            for at, kind in ((0, u), (2, inverse), (3, z))
        )
        i, one = arguments[1], matrix.number(1.0)
        tile = [matrix.load(matrix.after(i, p), i) for p in range(SIDE)]
        rest = vector.load(TOP, i)
        for q in range(SIDE):
            row, lane = matrix.after(i, q), LANE(q)
            pivot = builder.call(matrix.root(), [builder.extract_element(tile[q], lane)])
            over = builder.fdiv(one, pivot)
            tile[q] = matrix.times(tile[q], matrix.spread(over))
            for p in range(q + 1, SIDE):
                left = matrix.mixed(tile[q], tile[q], [p] * SIDE)
                tile[p] = matrix.less(tile[p], matrix.times(left, tile[q]))
            known = builder.fmul(over, builder.extract_element(rest, lane))
            rest = matrix.less(rest, matrix.times(matrix.spread(known), tile[q]))
            matrix.store(tile[q], row, i)
            builder.store(over, inverses.at(TOP, row))
            builder.store(known, vector.at(TOP, row))
        return context.get_dummy_value()

    return types.void(u, types.int64, inverse, z), generate


@emitted
def substitute(typing: Any, u: Any, i: Any, j: Any, inverse: Any, z: Any) -> Any:
    """Turn the tile C of u at (i, j) into the X with TᵀX = C, T being the triangle at (i, i).

    Given one over the diagonal of T and Tᵀ's solution in z, from i on, take Xᵀz off z from j on.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        matrix, inverses, vector = (
            Numbers(context, builder, kind, arguments[at])
            for at, kind in ((0, u), (3, inverse), (4, z))
        )
        _, i, j, _, _ = arguments
        rows = [matrix.after(i, p) for p in range(SIDE)]
        tile, rest = [matrix.load(row, j) for row in rows], vector.load(TOP, j)
        for q in range(SIDE):
            tile[q] = matrix.times(tile[q], matrix.spread(inverses.entry(TOP, rows[q])))
            for p in range(q + 1, SIDE):
                left = matrix.spread(matrix.entry(rows[q], rows[p]))
                tile[p] = matrix.less(tile[p], matrix.times(left, tile[q]))
            known = matrix.spread(vector.entry(TOP, rows[q]))
            rest = matrix.less(rest, matrix.times(known, tile[q]))
            matrix.store(tile[q], rows[q], j)
        vector.store(rest, TOP, j)
        return context.get_dummy_value()

    return types.void(u, types.int64, types.int64, inverse, z), generate


@emitted
def backward(typing: Any, u: Any, i: Any, size: Any, inverse: Any, z: Any) -> Any:
    """Find SIDE unknowns of U z = z from i on, given those after them, up to `size`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        matrix, inverses, vector = (
            Numbers(context, builder, kind, arguments[at])
            for at, kind in ((0, u), (3, inverse), (4, z))
        )
        _, i, size, _, _ = arguments
        rows = [matrix.after(i, p) for p in range(SIDE)]
        sums = [matrix.sum() for _ in rows]
        with cgutils.for_range_slice(builder, matrix.after(i, SIDE), size, PLACE(SIDE)) as (j, _):
            right = vector.load(TOP, j)
            for row, total in zip(rows, sums, strict=True):
                matrix.add(matrix.times(matrix.load(row, j), right), total)
        rest = vector.load(TOP, i)
        for lanes in matrix.transposed([builder.load(total) for total in sums]):
            rest = matrix.less(rest, lanes)
        columns = matrix.transposed([matrix.load(row, i) for row in rows])
        for q in reversed(range(SIDE)):
            over = inverses.entry(TOP, rows[q])
            known = builder.fmul(over, builder.extract_element(rest, LANE(q)))
            rest = matrix.less(rest, matrix.times(matrix.spread(known), columns[q]))
            builder.store(known, vector.at(TOP, rows[q]))
        return context.get_dummy_value()

    return types.void(u, types.int64, types.int64, inverse, z), generate


@emitted
def transpose(typing: Any, x: Any, j: Any, out: Any, i: Any) -> Any:
    """Make rows j to j + SIDE of `out`, from column i on, of as many columns of x's first rows."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source = Numbers(context, builder, x, arguments[0])
        target = Numbers(context, builder, out, arguments[2])
        _, j, _, i = arguments
        tile = [source.load(PLACE(p), j) for p in range(SIDE)]
        for p, row in enumerate(source.transposed(tile)):
            target.store(row, target.after(j, p), i)
        return context.get_dummy_value()

    return types.void(x, types.int64, out, types.int64), generate


@emitted
def combine(
    typing: Any, columns: Any, weights: Any, a: Any, b: Any, rows: Any, j: Any, out: Any, i: Any
) -> Any:
    """Set CHUNK_BYTES of row i of `out`, from column j on, to what weighted rows have there.

    Rows columns[t] are added up for t from a to b, one after the other; each product is rounded.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        places, factors, source, target = (
            Numbers(context, builder, kind, arguments[at])
            for at, kind in ((0, columns), (1, weights), (4, rows), (6, out))
        )
        _, _, a, b, _, j, _, i = arguments
        starts = range(0, CHUNK_BYTES // source.bytes, SIDE)
        at = [source.after(j, start) for start in starts]
        sums = [source.sum() for _ in starts]
        with cgutils.for_range_slice(builder, a, b, PLACE(1)) as (t, _):
            row = builder.sext(places.entry(TOP, t), PLACE)
            weight = source.spread(factors.entry(TOP, t))
            for column, total in zip(at, sums, strict=True):
                product = builder.fmul(weight, source.load(row, column))
                builder.store(builder.fadd(builder.load(total), product), total)
        for column, total in zip(at, sums, strict=True):
            target.store(builder.load(total), i, column)
        return context.get_dummy_value()

    size = types.int64
    return types.void(columns, weights, size, size, rows, size, out, size), generate


@emitted
def notable(typing: Any, x: Any, i: Any, j: Any, scales: Any, s: Any, k: Any, least: Any) -> Any:
    """Which of SIDE scaled numbers are more than the least or not finite, the first as bit 0.

    They are those of x from (i, j) on, times those of `scales` from (s, k) on.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        numbers = Numbers(context, builder, x, arguments[0])
        factors = Numbers(context, builder, scales, arguments[3])
        _, i, j, _, s, k, least = arguments
        scaled = builder.fmul(numbers.load(i, j), factors.load(s, k))
        lowest = numbers.spread(numbers.number(-math.inf))
        worse = builder.fcmp_ordered("<=", scaled, numbers.spread(least))
        dull = builder.and_(worse, builder.fcmp_ordered(">", scaled, lowest))
        bits = builder.bitcast(builder.not_(dull), ir.IntType(SIDE))
        return builder.zext(bits, PLACE)

    size = types.int64
    return size(x, size, size, scales, size, size, x.dtype), generate
