"""PyTorch: whether it is there, new enough, and where it is to compute."""

import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from recbench.environment import to_install
from recbench.errors import DataError, UsageError, printable
from recbench.models.context import Context

EXTRA = "torch"
"""What these models say of themselves: the extra that they need, and the package it brings."""
OLDEST = 2, 2
AUTO = "auto"
WAITING = "OMP_WAIT_POLICY"
DEVICE = re.compile(r"auto|cpu|cuda:\d{1,3}")


def load() -> Any:
    """PyTorch, or why it cannot be used."""
    try:
        with _patient(), _whole():
            import torch
    except (ImportError, OSError) as error:
        why = "" if isinstance(error, ModuleNotFoundError) else f" ({printable(str(error))})"
        raise DataError(
            f"this model is trained by PyTorch, which cannot be imported here{why}; install it: "
            f"{to_install(EXTRA)}"
        ) from error
    version = str(torch.__version__)
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST:
        raise DataError(
            f"PyTorch {version} is here, and {'.'.join(map(str, OLDEST))} is the oldest that "
            f"serves; upgrade it: {to_install(EXTRA)}"
        )
    return torch


@contextmanager
def _patient() -> Iterator[None]:
    """Have threads that wait for each other sleep, as is decided when their library is loaded.

    They would spin otherwise. Where a core is taken by another program, small steps then take
    several times as long, and most of what they take is spinning.
    """
    chosen = os.environ.get(WAITING)
    os.environ[WAITING] = chosen or "PASSIVE"
    try:
        yield
    finally:
        if chosen is None:
            del os.environ[WAITING]


@contextmanager
def _whole() -> Iterator[None]:
    """Have Ctrl-C wait for the end of an import.

    Half of PyTorch cannot be imported again, and sometimes it loses the interrupt: every model on
    it would fail, and the run would not end.
    """
    if threading.current_thread() is not threading.main_thread():  # is not interrupted
        yield
        return
    heard = list[int]()
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
        if heard:
            signal.raise_signal(signal.SIGINT)


def check_device(word: str) -> None:
    """Refuse what names no device on any machine."""
    if not DEVICE.fullmatch(word):
        raise UsageError(
            f"'{word}' is no device; give auto, cpu or a graphics processor by its number, as in "
            "cuda:0"
        )


def device_for(torch: Any, word: str) -> Any:
    """The device that a word means on this machine."""
    check_device(word)
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if word == AUTO:
        return torch.device("cuda:0" if count else "cpu")
    if word != "cpu" and int(word.partition(":")[2]) >= count:
        there = f"there are {count}, from cuda:0 on" if count else "there is none"
        raise DataError(
            f"PyTorch finds no {word} on this machine: {there}; give --device auto, or cpu"
        )
    return torch.device(word)


@contextmanager
def session(ctx: Context) -> Iterator[Any]:
    """PyTorch with the threads of a fit, repeating itself: the device to compute on."""
    torch = load()
    device = device_for(torch, ctx.device)
    if device.type == "cuda":  # without it products on it do not repeat themselves
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    filled = torch.utils.deterministic.fill_uninitialized_memory
    try:
        torch.set_num_threads(ctx.threads)
        with _whole():  # the first call imports a large part of PyTorch
            torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = False
        yield device
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(strict, warn_only=warns)
        torch.utils.deterministic.fill_uninitialized_memory = filled
