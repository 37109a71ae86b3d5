"""What machine and what code made a number: the record beside every result."""

import contextlib
import hashlib
import importlib.metadata
import json
import mmap
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import recbench
from recbench.errors import DataError

DISTRIBUTION = "recbench-suite"
PACKAGES = ("numpy", "scipy", "pandas", "pyarrow", "numba")
BUILT = "commit.json"
"""What hatch_build.py left in the package, if it was built where there was git."""
HOLDING_BACK = (
    "OPENBLAS_CORETYPE",
    "MKL_DEBUG_CPU_TYPE",
    "MKL_ENABLE_INSTRUCTIONS",
    "BLIS_ARCH_TYPE",
)
"""Variables that make a BLAS use another CPU's kernels than the best it has."""
BUFFER_BYTES, MOST_BUFFERS, LIBRARY_BYTES = 33 << 20, 64, 46 << 20
"""What OpenBLAS asks for each thread, the most threads of it, and what loading it takes."""
THREAD_BYTES, COMPILER_BYTES = 136 << 20, 128 << 20
"""The addresses that a thread sets aside for itself, and what it takes to compile kernels."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def describe(*things: Any, packages: Iterable[str] = ()) -> dict[str, Any]:
    """Everything about this process and machine that a result may depend on.

    `things` are the classes and functions that make it, which may be a plugin's; `packages` are
    those to name beside the ones that are always there.
    """
    return {
        "recbench": recbench.__version__,
        **source(),
        "code": code_digest(*things),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in (*PACKAGES, *packages)} | extras(things),
        "platform": platform.platform(),
        "cpu": cpu_model(),
        "cores": usable_cores(),
        "memory_bytes": total_memory(),
        "blas": blas(),
        "variables": {
            name: os.environ[name] for name in HOLDING_BACK + THREADS if name in os.environ
        },
    }


def version(name: str) -> str | None:
    """The installed version of a package, without importing it."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def to_install(extra: str) -> str:
    """What to type for an extra."""
    return f'pip install "{DISTRIBUTION}[{extra}]"'


def refuse_without(extra: str, what: str) -> None:
    """Say what to install, if that is not done."""
    if version(extra) is None:
        raise DataError(
            f"{what} needs {extra}, an extra that is not installed: {to_install(extra)}"
        )


def source() -> dict[str, Any]:
    """The commit of the code, and whether it was changed since; None where nobody knows.

    A working copy asks git. Elsewhere it is what git said when the package was built.
    """
    package = Path(recbench.__file__).resolve().parent
    folder = package.parent
    if not (folder / ".git").exists():
        return _built_from(package / BUILT)
    return {
        "commit": _git(folder, "rev-parse", "HEAD"),
        "dirty": bool(_git(folder, "status", "--porcelain", "--untracked-files=no")),
    }


def code_digest(*things: Any) -> str:
    """Name the content of recbench's code, of the files that these classes and functions, and what
    the classes inherit from, stand in, and the versions of the extras that they need.
    """
    package = Path(recbench.__file__).parent
    names = {base.__module__ for thing in things for base in getattr(thing, "__mro__", (thing,))}
    files = {Path(getattr(sys.modules.get(name), "__file__", None) or "") for name in names}
    digest = hashlib.sha256(_package_digest().encode())
    for path in sorted(path for path in files if package not in path.parents and path.is_file()):
        digest.update(path.read_bytes())
    for name, number in extras(things).items():
        digest.update(f"{name} {number}".encode())
    return digest.hexdigest()


def extras(things: Iterable[Any]) -> dict[str, str | None]:
    """The versions of the extras that some classes say they need."""
    names = {getattr(thing, "extra", "") for thing in things} - {""}
    return {name: version(name) for name in sorted(names)}


@cache
def _package_digest() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(recbench.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _built_from(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return {"commit": str(record["commit"]), "dirty": bool(record["dirty"])}
    except (OSError, ValueError, TypeError, KeyError):  # built where there was no git
        return {"commit": None, "dirty": None}


def _git(folder: Path, *words: str) -> str | None:
    """What git says. It only looks: a kill meanwhile leaves no lock of its index behind."""
    command = ["git", "--no-optional-locks", *words]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def room_for_blas() -> None:
    """Refuse to load a BLAS where there is no room for its buffers, or then for threads.

    Under a limit on the addresses of a process OpenBLAS asks for them again and again, for ever,
    and whoever starts a thread waits for one that died while it began.
    """
    if "scipy.linalg" in sys.modules:  # it is there
        return
    size = LIBRARY_BYTES + BUFFER_BYTES * min(usable_cores(), MOST_BUFFERS)
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:  # ulimit -v
        size += COMPILER_BYTES + THREAD_BYTES * usable_cores()
    try:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError:
        raise MemoryError(
            f"{size / 1e6:,.0f} MB are missing to load SciPy's BLAS and start threads"
        ) from None


def blas() -> list[dict[str, Any]]:
    """The BLAS libraries that are loaded: kind, version, kernel set and threads."""
    import numpy  # noqa: F401 - threadpoolctl sees only what is loaded

    room_for_blas()
    import scipy.linalg.blas  # noqa: F401
    from threadpoolctl import threadpool_info

    fields = ("internal_api", "version", "architecture", "num_threads")
    return [
        {name: library.get(name) for name in fields} | {"file": Path(library["filepath"]).name}
        for library in threadpool_info()
        if library["user_api"] == "blas"
    ]


def cpu_model() -> str:
    """The name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(
            line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
        )
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def usable_cores() -> int:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def total_memory() -> int:
    """Bytes of main memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def free_memory() -> int:
    """Bytes that can be allocated without swapping, as the kernel estimates them.

    Where a control group has a limit, as in most containers, they are those that it leaves.
    """
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        line = next(row for row in text.splitlines() if row.startswith("MemAvailable"))
        free = int(line.split()[1]) * 1024
    except (OSError, StopIteration):
        free = total_memory()
    left = left_by_limits()
    return free if left is None else min(free, left)


GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
"""Which control groups a process is in, and where they are described."""


def left_by_limits() -> int | None:
    """Bytes that control groups let this process allocate; None where they set no limit."""
    lefts = [left for folder in _memory_groups() if (left := _left_in(folder)) is not None]
    return min(lefts, default=None)


def _memory_groups() -> Iterator[Path]:
    """The folders of the control groups, of either version, that count this process's memory."""
    told, mounted = GROUPS
    try:
        lines = told.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top = mounted / "memory" if controllers else mounted
        folder = top / path.lstrip("/")
        # In a container the path may be one that is only there outside: the top is its own then.
        yield from (one for one in (folder, *folder.parents) if one == top or top in one.parents)


def _left_in(folder: Path) -> int | None:
    """What a group's limit leaves; what it holds of files can be had back."""
    try:
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        if (folder / "memory.max").exists():
            names, cached = ("memory.max", "memory.current"), "inactive_file"
        else:
            names, cached = (
                ("memory.limit_in_bytes", "memory.usage_in_bytes"),
                "total_inactive_file",
            )
        limit, used = (int((folder / name).read_text()) for name in names)
    except (OSError, ValueError):  # there is no such file, or it says max: no limit
        return None
    return None if limit >= total_memory() else max(0, limit - used + int(stat.get(cached, 0)))


def held_memory() -> int:
    """Bytes that this process holds now; where nobody tells, the most it ever held."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return peak_memory()
    return pages * os.sysconf("SC_PAGE_SIZE")


_earlier_peak = 0
"""What the kernel forgot at the last `restart_peak`."""
_earlier_laps = 0
"""What it forgot since, at the last `lap_peak`."""


def peak_memory() -> int:
    """The most memory this process has held, in bytes."""
    return max(_earlier_peak, recent_peak())


def restart_peak() -> None:
    """Let `recent_peak` speak of what follows; where the kernel cannot, of the whole process."""
    global _earlier_peak, _earlier_laps
    _earlier_peak, _earlier_laps = peak_memory(), 0
    _forget_peak()


def recent_peak() -> int:
    """The most memory this process has held since the last `restart_peak`, in bytes."""
    return max(_earlier_laps, _peak())


def lap_peak() -> int:
    """The most it has held since the last call; where the kernel cannot tell, ever."""
    global _earlier_laps
    lap = _peak()
    _earlier_laps = max(_earlier_laps, lap)
    _forget_peak()
    return lap


def _peak() -> int:
    """What the kernel says; `ru_maxrss` is never less than what whoever started this one held."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace").splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)


def _forget_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
