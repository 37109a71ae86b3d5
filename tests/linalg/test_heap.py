"""What steps free stays with the process while a fit goes on, and not for longer."""

import os
import resource
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from recbench.linalg import heap

PAGE = os.sysconf("SC_PAGE_SIZE")
LENGTH, TURNS = 10_000_000, 10
"""Numbers of four bytes in a block: more than glibc keeps of itself, less than it is told to."""

glibc = pytest.mark.skipif(heap.glibc() is None, reason="the C library is not glibc")


def alone(task, *args):
    """What a task returns in a process of its own."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(task, args)


def blocks():
    """Page faults of blocks that come and go."""
    np.ones(LENGTH, np.float32)  # whatever is needed once
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(TURNS):
        np.ones(LENGTH, np.float32)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def blocks_kept():
    """The same while they are kept, and after."""
    with heap.kept():
        inside = blocks()
    return inside, blocks()


@glibc
def test_blocks_come_back_without_faults_while_they_are_kept(monkeypatch):
    for name in heap.CHOSEN:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NUMPY_MADVISE_HUGEPAGE", "0")
    inside, after = alone(blocks_kept)
    assert inside < TURNS
    assert after > TURNS * LENGTH * 4 / PAGE / 600  # pages may be 512 times as large


@glibc
def test_thresholds_of_the_environment_stay(monkeypatch):
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "65536")
    inside, after = alone(blocks_kept)
    assert inside > TURNS
    assert after > TURNS


def resident():
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def leftovers():
    """What stays of a block beneath one that is still there: inside, and after."""
    start = resident()
    with heap.kept():
        block = np.ones(LENGTH, np.float32)
        above = np.ones(100_000, np.float32)
        del block
        inside = resident() - start
    return inside, resident() - start, above.sum()


@glibc
def test_what_was_kept_is_given_back(monkeypatch):
    for name in heap.CHOSEN:
        monkeypatch.delenv(name, raising=False)
    inside, after, _ = alone(leftovers)
    assert inside > 4 * LENGTH
    assert after < 2 * LENGTH


def test_other_libraries_are_left_alone(monkeypatch):
    monkeypatch.setattr(heap, "glibc", lambda: None)
    with heap.kept():
        pass
