"""What the steps of a run are said to take."""

import time
from pathlib import Path

import numpy as np
import pytest

from recbench.linalg.clock import CLOCK
from recbench.linalg.steps import Spent, Steps, added


def busy(seconds):
    """Compute for so long."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(1000))


def test_a_step_inside_another_is_taken_out_of_it():
    steps, begun = Steps(), time.perf_counter()
    with steps("fit"):
        time.sleep(0.01)
        with steps("inverse"):
            time.sleep(0.05)
        time.sleep(0.01)
    spent, all_of_it = steps.taken(), time.perf_counter() - begun
    assert list(spent) == ["fit", "inverse"]
    assert spent["fit"].seconds >= 0.02
    assert spent["inverse"].seconds >= 0.05
    assert sum(one.seconds for one in spent.values()) <= all_of_it
    assert [one.times for one in spent.values()] == [1, 1]


def test_a_step_that_is_made_again_is_added_up_and_told_once():
    steps = Steps()
    for _ in range(3):
        with steps("sweeps"):
            busy(0.01)
    (spent,) = steps.taken().values()
    assert spent.times == 3
    assert 0.03 <= spent.processor_seconds < 1.0
    assert steps.taken() == {}


def test_a_step_under_way_is_told_in_two_parts():
    steps = Steps()
    with steps("fit"):
        time.sleep(0.01)
        before = steps.taken()
        time.sleep(0.01)
    after = steps.taken()
    assert (before["fit"].times, after["fit"].times) == (1, 0)
    assert min(before["fit"].seconds, after["fit"].seconds) >= 0.01


def test_machine_code_that_is_made_meanwhile_takes_no_seconds():
    steps, begun = Steps(), time.perf_counter()
    with steps("fit"), CLOCK:
        time.sleep(0.05)
    assert steps.taken()["fit"].seconds <= time.perf_counter() - begun - 0.05


def test_an_error_ends_a_step():
    steps, begun = Steps(), time.perf_counter()
    with pytest.raises(ValueError, match="lost"), steps("fit"), steps("inverse"):
        raise ValueError("lost")
    time.sleep(0.05)
    with steps("ranking"):
        time.sleep(0.01)
    spent = steps.taken()
    assert spent["ranking"].seconds >= 0.01
    assert sum(one.seconds for one in spent.values()) <= time.perf_counter() - begun - 0.05


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="nothing forgets a peak")
def test_the_peak_is_of_the_step_that_held_the_memory():
    steps = Steps()
    with steps("small"):
        pass
    with steps("large"):
        np.ones(12_500_000)
    with steps("small"):
        pass
    spent = steps.taken()
    assert spent["large"].peak_bytes > spent["small"].peak_bytes + 50_000_000


def test_what_several_processes_spent_is_added_but_for_the_peak():
    one, other = {"fit": Spent(1, 2.0, 3.0, 10)}, {"fit": Spent(2, 1.0, 1.0, 7), "read": Spent(1)}
    assert added(one, other) == {"fit": Spent(3, 3.0, 4.0, 10), "read": Spent(1)}


def test_outside_of_a_run_nothing_is_noted_and_no_peak_forgotten(monkeypatch):
    monkeypatch.setattr("recbench.linalg.steps.lap_peak", pytest.fail)
    idle = Steps(noting=False)
    with idle("inverse"):
        pass
    monkeypatch.undo()
    assert idle.taken() == {}
