"""One inverse on 1, 2 and 4 workers: seconds, bytes, memory, and what a model says beforehand.

    python bench/spread.py                                   # 4,000 items: a minute
    python bench/spread.py --items 10000 15000 20000         # what docs/performance.md has
    python bench/spread.py --predict 400000 --workers 64 --gflops 1000 --bandwidth 1.25
    python bench/spread.py --kill                            # and a worker is killed half-way

A Dask scheduler and its workers, of one thread each, are processes of this machine that meet on the
loopback interface. Every inverse is compared, tile by tile, with the one that this process makes
by one thread. Bytes are counted where they come in. The model has two numbers of this machine, both
measured before the first inverse: the speed of sgemm by one thread, times the share of a core that
a worker has here, and how fast one worker gets tiles from another. Exit code 1 if a bit, or a byte
that was sent, differs.
"""

import argparse
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
from cluster import Lab
from scipy import sparse

from recbench.campaign.cluster.holders import DaskHolders
from recbench.campaign.cluster.link import DaskLink
from recbench.campaign.worker import compute_threads
from recbench.linalg.gram import gram
from recbench.linalg.held.heldtiles import HeldTiles, Wanted
from recbench.linalg.held.holder import Source
from recbench.linalg.held.layout import Layout
from recbench.linalg.speed import gemm_gflops
from recbench.linalg.tiles import Tiles, side_for

RIDGE = 80.0
EACH = 40
"""Items that a user has, on average."""
MEMORY = "12GB"
"""That each worker may have."""
HEADER = (
    f"{'items':>7}{'workers':>8}{'s':>8}{'model':>8}{'cpu s':>8}{'local':>8}"
    f"{'sent, GB':>10}{'theory':>8}{'held, GB':>10}{'peak':>7}  bits"
)


def interactions(items: int) -> sparse.csr_array:
    """Half as many users again as items; a few items are popular."""
    rng, users = np.random.default_rng(0), items * 3 // 2
    rows = rng.integers(0, users, EACH * users)
    columns = (items * rng.random(EACH * users) ** 2).astype(np.int64)
    matrix = sparse.csr_array(
        (np.ones(len(rows), np.float32), (rows, columns)), shape=(users, items)
    )
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return matrix


def alone(matrix: sparse.csr_array) -> tuple[float, dict[tuple[int, int], str]]:
    """The inverse by one thread of this process: its processor time, and what the tiles hold."""
    start = time.process_time()
    with compute_threads(1):
        tiles = Tiles.zeros(matrix.shape[1])
        gram(matrix, tiles)
        tiles.add_diagonal(RIDGE)
        tiles.invert()
    seconds = time.process_time() - start
    return seconds, {key: hashlib.sha256(tiles.block(*key)).hexdigest() for key in tiles.keys}


@contextmanager
def laboratory(workers: int) -> Iterator[tuple[Lab, DaskHolders]]:
    """Workers, once they are there and have compiled what they run."""
    with tempfile.TemporaryDirectory(prefix="recbench-spread-") as folder:
        lab = Lab(Path(folder), workers, MEMORY)
        holders = DaskHolders(partial(DaskLink, lab.address), announce=tell)
        try:
            while len(holders.link.workers()) < workers:
                time.sleep(0.1)
            HeldTiles(wanted(interactions(600), side=64), holders).close()
            yield lab, holders
        finally:
            holders.close()
            lab.close()


def tell(text: str) -> None:
    """What is out of the ordinary."""
    if not text.startswith("spread: "):
        print(text, flush=True)


def wanted(matrix: sparse.csr_array, side: int | None = None) -> Wanted:
    n = matrix.shape[1]
    return Wanted(Source(matrix, RIDGE), n, "float32", side or side_for(n), "bench")


def spent(holders: DaskHolders) -> list[tuple[float, int]]:
    """By worker: seconds of the processor, and the most memory, so far."""

    async def here() -> tuple[float, int]:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        peak = next(line for line in lines if line.startswith("VmHWM"))
        return time.process_time(), int(peak.split()[1]) * 1024

    asked = [holders.link.beside(address, here) for address in sorted(holders.attending)]
    return [answer.result() for answer in asked]


def bandwidth(holders: DaskHolders) -> float:
    """Bytes a second that a worker gets tiles with, four at a time."""
    n = 4096
    held = HeldTiles(wanted(interactions(n), side=1024), holders)
    token, addresses = held._team._token, held._team._addresses  # type: ignore[union-attr]

    async def fetch(dask_worker: Any) -> float:
        import asyncio

        async def one(j: int) -> int:
            words = j, j * 1024, (j + 1) * 1024  # its own, of two
            asked = dask_worker.rpc(addresses[1]).recbench_holder
            answer = await asked(token=token, method="strip", words=words)
            return int(answer["tile"].nbytes)

        start, got = time.perf_counter(), 0
        for _ in range(8):
            got += sum(await asyncio.gather(*map(one, (1, 3, 1, 3))))
        return got / (time.perf_counter() - start)

    rate = holders.link.beside(addresses[0], fetch).result()
    held.close()
    return float(rate)


def measured(
    holders: DaskHolders, matrix: sparse.csr_array, folder: Path | None = None
) -> tuple[HeldTiles, float, float, int]:
    """An inverse, its seconds on the wall and of all workers, and the most memory that one had."""
    before, start = spent(holders), time.perf_counter()
    held = HeldTiles(wanted(matrix), holders, folder)
    seconds, after = time.perf_counter() - start, spent(holders)
    peak = max(most for _, most in after)
    return held, seconds, sum(s for s, _ in after) - sum(s for s, _ in before), peak


def compare(items: Sequence[int], teams: Sequence[int], gflops: float) -> bool:
    """Print a line for every number of items and of workers."""
    cores, same = len(os.sched_getaffinity(0)), True
    found = {n: alone(interactions(n)) for n in items}
    speed = 0.0
    print(f"sgemm by one thread: {gflops:.0f} GFLOP/s; {cores} cores")
    for workers in teams:
        for n in items:  # workers of their own, or their peak would be that of a larger one
            with laboratory(workers) as (_, holders):
                if workers > 1 and not speed:
                    speed = bandwidth(holders)
                    print(f"from worker to worker: {speed / 1e9:.2f} GB/s")
                    print(HEADER)
                elif not speed and n == items[0]:
                    print(HEADER)
                held, seconds, processor, peak = measured(holders, interactions(n))
                layout = Layout(n, side_for(n), "float32", workers)
                each = gflops * min(1.0, cores / workers)
                model = layout.seconds(each, speed or np.inf)
                sent, theory = sum(held.received()), layout.bytes_sent()
                local, digests = found[n]
                bits = held.digests() == digests
                same &= bits and sent == theory
                most = max(map(layout.bytes_held, range(workers)))
                print(
                    f"{n:7,}{workers:8}{seconds:8.1f}{model:8.1f}{processor:8.1f}{local:8.1f}"
                    f"{sent / 1e9:10.3f}{theory / 1e9:8.3f}{most / 1e9:10.2f}{peak / 1e9:7.2f}"
                    f"  {'equal' if bits else 'OTHER'}",
                    flush=True,
                )
                del held
    return same


def killed(n: int, workers: int) -> bool:
    """Kill a worker half-way, with and without a folder, and compare the tiles."""
    matrix, same = interactions(n), True
    _, digests = alone(matrix)
    for kept in (True, False):
        with laboratory(workers) as (lab, holders), tempfile.TemporaryDirectory() as folder:
            held, whole, _, _ = measured(holders, matrix)
            del held
            Timer(whole / 2, lab.restart, [0]).start()
            where = Path(folder) if kept else None
            held, seconds, _, _ = measured(holders, matrix, where)
            bits = held.digests() == digests
            same &= bits
            print(
                f"{n:,} items, {workers} workers, {'a' if kept else 'no'} folder: {whole:.1f} s, "
                f"{seconds:.1f} s with a worker killed; bits {'equal' if bits else 'OTHER'}",
                flush=True,
            )
            del held
    return same


def predict(options: argparse.Namespace) -> None:
    """What the model says of other clusters."""
    print(f"{'items':>9}{'workers':>8}{'hours':>9}{'GB each':>9}{'sent, TB':>10}")
    for n in options.predict:
        for workers in options.workers:
            layout = Layout(n, side_for(n), "float32", workers)
            seconds = layout.seconds(options.gflops, options.bandwidth * 1e9)
            most = max(map(layout.bytes_held, range(workers)))
            print(
                f"{n:9,}{workers:8}{seconds / 3600:9.2f}{most / 1e9:9.1f}"
                f"{layout.bytes_sent() / 1e12:10.2f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--items", type=int, nargs="+", default=[4000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--kill", action="store_true", help="and kill a worker half-way")
    parser.add_argument("--predict", type=int, nargs="+", help="print the model for so many items")
    parser.add_argument("--gflops", type=float, default=1000.0, help="of a worker, to predict")
    parser.add_argument("--bandwidth", type=float, default=1.25, help="GB/s that a worker gets")
    options = parser.parse_args()
    if options.predict:
        predict(options)
        return
    with compute_threads(1):
        gflops = gemm_gflops()
    same = compare(options.items, options.workers, gflops)
    if options.kill:
        same &= killed(options.items[0], options.workers[-1])
    raise SystemExit(0 if same else 1)


if __name__ == "__main__":
    main()
