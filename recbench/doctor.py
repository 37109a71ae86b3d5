"""What this machine can do, measured, and what holds it back."""

import time
from typing import Any

import numpy as np

from recbench import environment
from recbench.fetch import home_folder
from recbench.linalg.tiles import Tiles

GEMM_SIDE = 3072
COPY_BYTES = 1 << 28
CEILING = 0.8
"""Share of the machine's sgemm speed that a fit is expected to reach."""


def examine(items: int) -> dict[str, Any]:
    """Measure this machine and estimate a linear-autoencoder fit of so many items."""
    record = environment.describe()
    speed, bandwidth = gemm_gflops(), copy_gigabytes()
    seconds = seconds_for(items**3, speed)
    needed, free = Tiles.bytes_needed(items, np.float32), environment.free_memory()
    facts = {
        "recbench": _version(record),
        "python": record["python"],
        "packages": [f"{name} {version}" for name, version in record["packages"].items()],
        "data folder": str(home_folder()),
        "cpu": f"{record['cpu']}, {record['cores']} cores",
        "memory": f"{free / 1e9:.1f} of {record['memory_bytes'] / 1e9:.1f} GB free",
        "blas": [_library(library) for library in record["blas"]],
        "sgemm": f"{speed:.0f} GFLOP/s",
        "memory copy": f"{bandwidth:.1f} GB/s",
        f"EASE, {items:,} items": f"about {duration(seconds)}, {needed / 1e9:.2f} GB",
    }
    return {"facts": facts, "advice": advice(record, needed), "environment": record}


def seconds_for(operations: float, gflops: float) -> float:
    """How long a fit should take that is made of matrix products."""
    return operations / (CEILING * gflops * 1e9)


def advice(record: dict[str, Any], needed: int) -> list[str]:
    """Sentences about what holds this machine back."""
    lines = [
        f"{name}={record['variables'][name]} makes the BLAS use another CPU's kernels; "
        "unset it and compare the sgemm line"
        for name in environment.HOLDING_BACK
        if name in record["variables"]
    ]
    lines += [
        f"{name}={record['variables'][name]} uses fewer threads than the {record['cores']} cores"
        for name in environment.THREADS
        if record["variables"].get(name, "").isdigit()
        and int(record["variables"][name]) < record["cores"]
    ]
    if needed > environment.free_memory():
        lines.append(
            "that EASE fit does not fit in free memory; keep its tiles on disk: --tiles-on-disk DIR"
        )
    return lines


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


def _seconds(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _library(library: dict[str, Any]) -> str:
    return (
        f"{library['internal_api']} {library['version']} "
        f"({library['architecture']} kernels, {library['num_threads']} threads)"
    )


def _version(record: dict[str, Any]) -> str:
    commit = f", commit {record['commit'][:10]}" if record["commit"] else ""
    return f"{record['recbench']}{commit}{' with local changes' if record['dirty'] else ''}"


def duration(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 1:
        return "a second"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
