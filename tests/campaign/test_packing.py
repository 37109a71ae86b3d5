import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recbench.campaign import busy
from recbench.campaign.busy import APART, Busy
from recbench.campaign.packing import FIRST, WORTH, Machine, Measured, foreseen, pack

GB = 10**9
EIGHT = Machine(cores=8, free=64 * GB, base=GB, start=3.0)
SERIAL, WHOLE = Measured(10.0, 1.0, GB), Measured(10.0, 8.0, GB)


def test_what_goes_on_one_thread_has_company_on_every_core():
    packing = pack(SERIAL, 16, EIGHT)
    assert (packing.jobs, packing.threads) == (8, 1)
    assert packing.reason == "a fit keeps 1.0 of 8 cores busy"


def test_what_keeps_every_core_busy_goes_alone():
    packing = pack(WHOLE, 100, EIGHT)
    assert (packing.jobs, packing.threads) == (1, 8)


def test_between_the_two_fits_share_the_cores():
    packing = pack(Measured(10.0, 4.0, GB), 4, EIGHT)
    assert (packing.jobs, packing.threads) == (4, 2)


def test_processes_are_not_started_for_little():
    packing = pack(replace(SERIAL, seconds=0.1), 9, EIGHT)
    assert packing.jobs == 1
    assert packing.reason.endswith("but 9 of 0.10 s are too few to start processes for")
    assert pack(replace(SERIAL, seconds=0.1), 9, replace(EIGHT, start=0.0)).jobs > 1


def test_a_crowd_makes_starting_processes_longer_too():
    fits = replace(SERIAL, seconds=1.0)
    assert pack(fits, 16, EIGHT).jobs > 1
    assert pack(replace(fits, crowding=10.0), 16, EIGHT).jobs == 1


def test_two_fits_are_not_packed_into_memory_for_one():
    packing = pack(replace(SERIAL, memory=40 * GB), 16, EIGHT)
    assert packing.jobs == 1
    assert packing.reason == "a fit in a process takes 41.0 GB, and 64.0 GB are free"
    assert pack(replace(SERIAL, memory=20 * GB), 16, EIGHT).jobs == 3


def test_threads_that_were_asked_for_stay():
    packing = pack(SERIAL, 16, replace(EIGHT, threads=4))
    assert (packing.jobs, packing.threads) == (2, 4)
    assert pack(WHOLE, 16, replace(EIGHT, threads=8)).threads == 8


@given(
    st.floats(0.01, 1000), st.floats(0.5, 9), st.integers(0, 100), st.integers(1, 50),
    st.integers(1, 64), st.integers(0, 100), st.floats(0, 10),
)  # fmt: skip
def test_whatever_is_measured_more_cores_or_memory_than_there_are_is_not_used(
    seconds, cores, memory, left, machine_cores, free, start
):
    machine = Machine(machine_cores, free * GB, GB, start)
    packing = pack(Measured(seconds, cores, memory * GB), left, machine)
    assert 1 <= packing.jobs <= left
    assert packing.jobs * packing.threads <= machine_cores
    if packing.jobs > 1:
        assert packing.jobs * (memory * GB + GB) <= free * GB
        assert left * seconds * WORTH > start  # or it could not be worth it


@pytest.mark.parametrize(
    ("fits", "memory", "seconds", "free", "words"),
    [
        (1, 0, None, 64, "one at a time: it is over when measured"),
        (FIRST, 0, None, 64, "one at a time: they are over when measured"),
        (9, 0, 60.0, 64, "one at a time: products of matrices keep all 8 cores busy"),
        (9, 40 * GB, None, 64, "one at a time: 41.0 GB each, 64.0 GB free"),
        (9, 20 * GB, None, 64, "at most 3 at once (21.0 GB each, 64.0 GB free)"),
        (9, 0, 0.1, 64, "at most 7 at once (1.0 GB each, 64.0 GB free)"),
    ],
)
def test_a_dry_run_says_what_is_known(fits, memory, seconds, free, words):
    assert foreseen(fits, memory, seconds, 8, free * GB, GB) == words


def spin(looks: int, during: Busy) -> None:
    while during.looks < looks:
        sum(range(1000))


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_thread_that_computes_is_one_core_however_many_others_want_it():
    with Busy() as busy_one:
        spin(10, busy_one)
    assert 0.8 <= busy_one.cores <= 1.3
    assert busy_one.crowding >= 1.0
    assert busy_one.seconds >= 10 * APART


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_thread_that_waits_is_none():
    with Busy() as during:
        during._left.wait(15 * APART)
    assert during.looks > 0
    assert during.cores < 0.5


def test_where_nobody_tells_what_was_had_must_do(monkeypatch, tmp_path):
    monkeypatch.setattr(busy, "TASKS", tmp_path / "nowhere")
    with Busy() as during:
        sum(range(2_000_000))
    assert during.looks == int(during.seconds / APART)
    assert 0 < during.cores < 1.5
