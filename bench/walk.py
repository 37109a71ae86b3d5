"""The graph walk and Adam: bytes per second beside copying memory, beside SciPy and PyTorch.

    python bench/walk.py                # Gowalla, 64 columns; PyTorch takes part if it is installed
    python bench/walk.py --columns 66

A product with the graph of Gowalla's 810,128 training interactions counts the rows it has to
gather, 2 x 810,128 of 64 numbers; a step of Adam, four tables read and three written; a copy, what
it reads and writes. Everyone takes turns on the same float32 arrays, first on one thread, then on
all. The fastest of the rounds counts, on the wall and in processor time, which other work on the
machine touches less. SciPy's product always takes one thread. PyTorch's graph is stored by rows:
with 64-bit indices, as it comes, and with 32-bit ones, which its fast library needs.

A batch is what 2,048 random interactions touch: their users and items. `spread` is the mean of the
table and so many hops, `back` is its transpose.
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from lae import gowalla
from scipy import sparse

from recbench.linalg import blas
from recbench.linalg.adam import Adam, norm
from recbench.linalg.topk import kernel_threads
from recbench.linalg.walk import Graph
from recbench.splits.given import Given

Table = npt.NDArray[np.float32]
BATCH, ROUNDS, REPEATS = 2048, 8, 3
COPIED = 1 << 25
"""Numbers to be copied: 128 MB."""
ADAM = 7
"""Tables that a step of Adam reads or writes."""


@dataclass
class Line:
    """A contestant: what it does, how many bytes that are, and the best of its times."""

    name: str
    work: Callable[[], Any]
    size: int
    rival: str | None = None
    """The line to be compared with."""
    wall: float = float("inf")
    processor: float = float("inf")

    def run(self) -> None:
        """Do it a few times, and keep the best."""
        for _ in range(REPEATS):
            wall, processor = time.perf_counter(), time.process_time()
            self.work()
            self.wall = min(self.wall, time.perf_counter() - wall)
            self.processor = min(self.processor, time.process_time() - processor)


class World:
    """The graph, tables, and a batch."""

    def __init__(self, columns: int) -> None:
        self.train = sparse.csr_array(Given().apply(gowalla(0)).full).astype(np.float32)
        self.graph, rng = Graph.of(self.train), np.random.default_rng(0)
        shape = self.graph.nodes, columns
        self.table, self.gradient, self.out = (
            rng.standard_normal(shape, np.float32) for _ in range(3)
        )
        users, items = self.train.nonzero()
        chosen = rng.integers(0, len(users), BATCH)
        both = np.concatenate([users[chosen], items[chosen] + self.train.shape[0]])
        self.batch = np.unique(both).astype(np.int32)
        self.some = self.gradient[self.batch]
        self.size = self.table.nbytes
        self.row = self.size // self.graph.nodes

    def normalised(self) -> sparse.csr_array:
        """The matrix with its values, as others need it."""
        whole = sparse.block_array([[None, self.train], [self.train.T, None]], format="csr")
        degrees = self.graph.degrees
        roots = np.divide(1, np.sqrt(degrees), out=np.zeros(len(degrees)), where=degrees > 0)
        scale = sparse.diags_array(roots)
        return sparse.csr_array((scale @ whole @ scale).astype(np.float32))


def copy(pool: Executor, source: Table, target: Table) -> None:
    blocks = [slice(start, start + (1 << 20)) for start in range(0, len(source), 1 << 20)]
    blas.finish(pool, lambda block: np.copyto(target[block], source[block]), [(b,) for b in blocks])


def ours(world: World, pool: Executor) -> Iterator[Line]:
    graph, table, batch = world.graph, world.table, world.batch
    edges, near = int(graph.degrees.sum()), int(graph.degrees[batch].sum())
    source, target = np.ones(COPIED, np.float32), np.zeros(COPIED, np.float32)
    yield Line("copy", partial(copy, pool, source, target), 2 * source.nbytes)
    yield Line("hop", partial(graph.hop, pool, table, world.out), edges * world.row)
    for hops in (1, 3):
        size = hops * edges * world.row
        yield Line(f"spread {hops}", partial(graph.spread, pool, table, hops), size)
        less = ((hops - 1) * edges + near) * world.row
        rival = f"spread {hops}"
        some = partial(graph.spread, pool, table, hops, batch)
        yield Line(f"spread {hops}, batch", some, less, rival)
        back = partial(graph.spread_back, pool, world.some, hops, batch)
        yield Line(f"back {hops}, batch", back, less, rival)
    dense, rows, lazy = (Adam(table.copy(), lazy=lazy) for lazy in (False, False, True))
    yield Line("adam", partial(dense.step, pool, world.gradient, 1e-3), ADAM * world.size)
    by_rows = partial(rows.step, pool, world.some, 1e-3, batch)
    yield Line("adam, batch", by_rows, (ADAM - 1) * world.size + world.some.nbytes, "adam")
    by_lazy = partial(lazy.step, pool, world.some, 1e-3, batch)
    yield Line("adam, lazy batch", by_lazy, ADAM * world.some.nbytes, "adam")
    yield Line("norm", partial(norm, pool, [world.gradient]), world.size)


def scipys(world: World, matrix: sparse.csr_array) -> Iterator[Line]:
    yield Line("scipy's product", lambda: matrix @ world.table, matrix.nnz * world.row, "hop")


def torchs(world: World, matrix: sparse.csr_array) -> Iterator[Line]:
    import torch

    table, gradient = torch.from_numpy(world.table.copy()), torch.from_numpy(world.gradient)
    for kind in (torch.int64, torch.int32):
        starts, columns = (torch.from_numpy(a).to(kind) for a in (matrix.indptr, matrix.indices))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it calls its sparse matrices a beta
            theirs = torch.sparse_csr_tensor(
                starts, columns, torch.from_numpy(matrix.data), size=matrix.shape
            )
        name = f"torch's product, {str(kind).removeprefix('torch.')}"
        yield Line(name, partial(torch.matmul, theirs, table), matrix.nnz * world.row, "hop")
    for fused in (False, True):
        moved = torch.nn.Parameter(table.clone())
        moved.grad = gradient
        step = torch.optim.Adam([moved], fused=fused).step
        yield Line(f"torch's Adam{', fused' * fused}", step, ADAM * world.size, "adam")


def race(world: World, matrix: sparse.csr_array, threads: int) -> None:
    """Let all take turns, and print what came of it."""
    with kernel_threads(threads), blas.workers() as pool:
        lines = [*ours(world, pool)]
        if threads == 1:
            lines += scipys(world, matrix)
        try:
            import torch
        except ImportError:
            print("PyTorch is not installed and does not take part")
        else:
            torch.set_num_threads(threads)
            lines += torchs(world, matrix)
        for line in lines:
            line.work()  # compiles, and makes room
        for _ in range(ROUNDS):
            for line in lines:
                line.run()
    named = {line.name: line for line in lines}
    copied = named["copy"].size / named["copy"].wall
    print(f"\n{threads} thread{'s' * (threads > 1)}")
    for line in lines:
        rate = line.size / line.wall
        text = (
            f"{line.name:24} {line.wall * 1e3:7.1f} ms ({line.processor * 1e3:6.1f} ms processor)"
        )
        text += f" {rate / 1e9:6.1f} GB/s, {rate / copied:5.2f} of a copy's"
        if line.rival:
            rival = named[line.rival]
            times = f"{line.wall / rival.wall:.2f} x ({line.processor / rival.processor:.2f} x)"
            text += f", {times} the time of {line.rival}"
        print(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--columns", type=int, default=64)
    world = World(parser.parse_args().columns)
    matrix, batch = world.normalised(), world.batch
    print(
        f"{matrix.nnz:,} edges of {world.graph.nodes:,} nodes; a batch has {len(batch):,} rows "
        f"with {world.graph.degrees[batch].sum():,} edges; "
        f"OPENBLAS_CORETYPE={os.environ.get('OPENBLAS_CORETYPE', '')}"
    )
    start = time.perf_counter()
    world.graph.only(np.random.default_rng(0).random(world.train.nnz) < 0.9)
    print(f"a graph of nine edges in ten: {(time.perf_counter() - start) * 1e3:.0f} ms")
    for threads in sorted({1, os.cpu_count() or 1}):
        race(world, matrix, threads)


if __name__ == "__main__":
    main()
