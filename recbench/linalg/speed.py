"""How fast this machine multiplies matrices and copies memory, measured."""

import time
from collections.abc import Callable

import numpy as np

GEMM_SIDE = 3072
COPY_BYTES = 1 << 28
CEILING = 0.8
"""Share of the machine's sgemm speed that a fit is expected to reach."""


def seconds_for(operations: float, gflops: float) -> float:
    """How long a fit should take that is made of matrix products."""
    return operations / (CEILING * gflops * 1e9)


def gemm_gflops(side: int = GEMM_SIDE, repeats: int = 3) -> float:
    """The best speed of a float32 matrix product in a few tries."""
    block = np.ones((side, side), dtype=np.float32)
    out = np.empty_like(block)
    best = min(_seconds(lambda: np.matmul(block, block, out=out)) for _ in range(repeats))
    return float(2 * side**3 / best / 1e9)


def copy_gigabytes(size: int = COPY_BYTES, repeats: int = 3) -> float:
    """Bytes read plus bytes written per second by a large copy."""
    source, target = np.ones(size // 8), np.zeros(size // 8)
    best = min(_seconds(lambda: np.copyto(target, source)) for _ in range(repeats))
    return 2 * size / best / 1e9


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
