"""The clock that stands still while it is held."""

import threading
import time

from recbench.linalg.clock import Clock


def test_it_goes_on_unless_it_is_held():
    clock = Clock()
    start = clock.now()
    time.sleep(0.01)
    assert clock.now() - start >= 0.01
    assert clock.stood == 0.0


def test_it_stands_still_until_the_last_one_lets_it_go():
    clock = Clock()
    clock.hold()
    start = clock.now()
    with clock:
        time.sleep(0.01)
        assert clock.now() == start
    time.sleep(0.01)
    assert clock.now() == start
    clock.release()
    assert clock.stood >= 0.02
    assert clock.now() >= start


def test_threads_that_hold_it_at_once_are_not_counted_twice():
    clock, ready = Clock(), threading.Barrier(4)
    began = time.perf_counter()

    def hold():
        with clock:
            ready.wait()
            time.sleep(0.01)

    threads = [threading.Thread(target=hold) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0.01 <= clock.stood <= time.perf_counter() - began
