"""What this machine can do, measured, and what holds it back."""

from typing import Any

import numpy as np

from recbench import environment
from recbench.files import home_folder
from recbench.linalg.speed import copy_gigabytes, gemm_gflops, seconds_for
from recbench.linalg.tiles import Tiles


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
