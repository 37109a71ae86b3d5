"""In-place BLAS and LAPACK on views of arrays, and threads to run them side by side.

SciPy's own wrappers hold the interpreter lock while BLAS works and copy whatever is not laid
out as they like. The same routines, called through the C pointers that `scipy.linalg.cython_blas`
and `cython_lapack` publish, run in parallel and cannot copy: they get an address.

`workers` gives every routine one BLAS thread and runs many at once. Results then do not depend
on the number of threads, the machine stays busy where BLAS itself would be serial, and a core
taken away by another program delays one small task, not every barrier inside BLAS.
"""

import ctypes
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed, wait
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import numpy as np

from recbench.environment import room_for_blas
from recbench.linalg.shares import cores
from recbench.linalg.types import Matrix

T = TypeVar("T")


class NotPositive(ArithmeticError):
    """A Cholesky factorisation met a pivot that is not a positive number."""


def add_product(c: Matrix, a: Matrix, b: Matrix, factor: float) -> None:
    """C += factor · A B."""
    if not c.flags.f_contiguous:
        a, b, c = b.T, a.T, c.T  # C in rows is Cᵀ in columns, which is all that BLAS knows
    (m, n), k = c.shape, a.shape[1]
    (flag_a, step_a), (flag_b, step_b), (_, step_c) = _layout(a), _layout(b), _layout(c)
    call("gemm", flag_a, flag_b, m, n, k, factor, a, step_a, b, step_b, 1.0, c, step_c)


def add_square(c: Matrix, a: Matrix, factor: float) -> None:
    """C += factor · A Aᵀ in the lower triangle of a square stored by rows."""
    (n, k), (flag, step) = a.shape, _layout(a)
    call("syrk", "U", flag, n, k, factor, a, step, 1.0, c, n)


def times_triangle(b: Matrix, m: Matrix, factor: float, *, transposed: bool) -> None:
    """B = factor · B M, or B Mᵀ, for a lower triangle M stored by rows.

    By columns those rows are the upper triangle Mᵀ. So is B, where it is stored by rows, and the
    product is taken from the other side: (B M)ᵀ = Mᵀ Bᵀ.
    """
    flag, step = _layout(b)
    side, columns = ("R", b) if flag == "N" else ("L", b.T)
    plain = transposed == (side == "R")
    sides = (side, "U", "N" if plain else "T", "N")
    call("trmm", *sides, *columns.shape, factor, m, len(m), b, step)


def inverse_factor(a: Matrix) -> None:
    """A = M, where A⁻¹ = MᵀM: the lower triangle of a square stored by rows is replaced."""
    status = ctypes.c_int()
    call("potrf", "U", len(a), a, len(a), status)
    # OpenBLAS reports a negative pivot, but lets infinity and NaN pass.
    if status.value or not np.isfinite(a.diagonal()).all():
        raise NotPositive
    call("trtri", "U", "N", len(a), a, len(a), status)


def square_factor(m: Matrix) -> None:
    """M = MᵀM in the lower triangle of a square stored by rows."""
    call("lauum", "U", len(m), m, len(m), ctypes.c_int())


def mirror(square: Matrix, block: int = 256) -> None:
    """Copy the lower triangle over the upper one."""
    for start in range(0, len(square), block):
        rows = square[start : start + block]
        rows[:, start + block :] = square[start + block :, start : start + block].T
        corner = rows[:, start : start + block]
        corner[...] = np.tril(corner) + np.tril(corner, -1).T


def _layout(a: Matrix) -> tuple[str, int]:
    """How a column-major routine has to read this view: as it is or transposed, and its step."""
    if a.flags.f_contiguous:
        return "N", a.shape[0]
    if a.flags.c_contiguous:
        return "T", a.shape[1]
    down, across = a.strides
    if down == a.itemsize and across % a.itemsize == 0 and across >= down * a.shape[0]:
        return "N", across // a.itemsize
    if across == a.itemsize and down % a.itemsize == 0 and down >= across * a.shape[1]:
        return "T", down // a.itemsize
    raise ValueError("BLAS runs here on arrays whose rows or columns are contiguous")


def call(name: str, *arguments: object) -> None:
    """Run a routine of the precision of its array arguments, every argument by reference."""
    dtype = next(a.dtype for a in arguments if isinstance(a, np.ndarray))
    real = ctypes.c_float if dtype == np.float32 else ctypes.c_double

    def reference(argument: object) -> object:
        if isinstance(argument, np.ndarray):
            if argument.dtype != dtype:
                raise TypeError(f"{name} needs arrays of one dtype, not {argument.dtype}")
            return ctypes.c_void_p(argument.ctypes.data)
        if isinstance(argument, str):
            return argument.encode()
        if isinstance(argument, int):
            return ctypes.byref(ctypes.c_int(argument))
        if isinstance(argument, float):
            return ctypes.byref(real(argument))
        assert isinstance(argument, ctypes.c_int | ctypes.Array), argument
        return ctypes.byref(argument)

    _routine(("s" if dtype == np.float32 else "d") + name)(*map(reference, arguments))


@cache
def _routine(name: str) -> Callable[..., None]:
    """Find a Fortran-style routine among the C pointers SciPy publishes."""
    room_for_blas()
    from scipy.linalg import cython_blas, cython_lapack  # a tenth of a second: not for tables

    module: Any = cython_blas if name in vars(cython_blas)["__pyx_capi__"] else cython_lapack
    capsule = module.__pyx_capi__[name]
    signature_of = ctypes.pythonapi.PyCapsule_GetName
    signature_of.restype, signature_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype = ctypes.c_void_p
    pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
    signature = signature_of(capsule)
    if b"int *" not in signature:
        raise RuntimeError(f"SciPy's {name} does not take 32-bit integers: {signature!r}")
    # A CFUNCTYPE, unlike a PYFUNCTYPE, releases the interpreter lock for the call.
    return ctypes.CFUNCTYPE(None)(pointer_of(capsule, signature))


def threads() -> int:
    """As many as BLAS may use."""
    allowed = max((library.num_threads for library in loaded().lib_controllers), default=1)
    return min(allowed, cores())


@contextmanager
def workers() -> Iterator[Executor]:
    """A pool of as many threads as BLAS may use, while BLAS itself uses one in each.

    Asked for again by the thread that has it, it is the same pool.
    """
    if hasattr(_mine, "pool"):
        yield _mine.pool
        return
    count = threads()
    _mine.pool, _mine.alone = ThreadPoolExecutor(count), count == 1
    try:
        with loaded().limit(limits=1):
            yield _mine.pool
    finally:
        pool = _mine.pool
        del _mine.pool, _mine.alone
        pool.shutdown(cancel_futures=True)  # after an error or Ctrl-C, only what already runs


_mine = threading.local()
"""The pool that each thread has, if any."""


@cache
def loaded() -> Any:
    """NumPy's and SciPy's BLAS."""
    room_for_blas()
    import scipy.linalg  # noqa: F401 - brings its BLAS
    from threadpoolctl import ThreadpoolController  # looks through every loaded library: once

    return ThreadpoolController().select(user_api="blas")


def run_all(
    pool: Executor, task: Callable[..., None], items: Iterable[tuple[Any, ...]]
) -> Iterator[None]:
    """Run a task on every item, in any order; yield as each one ends."""
    if getattr(_mine, "alone", False):  # handing over small pieces would cost more than doing them
        for item in items:
            task(*item)
            yield
        return
    futures = [pool.submit(task, *item) for item in items]
    try:
        for future in as_completed(futures):
            yield future.result()
    except BaseException:  # the pool may be used again: leave nothing behind in it
        for future in futures:
            future.cancel()
        wait(futures)
        raise


def in_order(pool: Executor, task: Callable[..., T], items: Iterable[Any]) -> Iterator[T]:
    """What a task makes of every item, in the order of the items."""
    return map(task, items) if getattr(_mine, "alone", False) else pool.map(task, items)


def finish(pool: Executor, task: Callable[..., None], items: Iterable[tuple[Any, ...]]) -> None:
    """Run a task on every item, in any order."""
    for _ in run_all(pool, task, items):
        pass
