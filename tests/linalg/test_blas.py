"""The pool of threads; products and factorisations are tested where they are used."""

import threading
import time

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from recbench.linalg import blas


def blas_threads() -> int:
    found = [library for library in threadpool_info() if library["user_api"] == "blas"]
    return max(library["num_threads"] for library in found)


def test_as_many_workers_as_blas_had_threads_and_one_thread_for_blas_in_each():
    with threadpool_limits(2, user_api="blas"):
        with blas.workers() as pool:
            assert pool._max_workers == 2
            assert blas_threads() == 1
        assert blas_threads() == 2


def test_whoever_has_a_pool_gets_it_again():
    with blas.workers() as pool:
        with blas.workers() as again:
            assert again is pool
        assert pool.submit(int).result() == 0  # still open
    with blas.workers() as other:
        assert other is not pool


def test_other_threads_get_their_own():
    found = []

    def work() -> None:
        with blas.workers() as pool:
            found.append(pool)

    with blas.workers() as pool:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert found
    assert found[0] is not pool


def test_an_error_leaves_nothing_running_in_a_pool_that_goes_on():
    done = []

    def task(number: int) -> None:
        if number == 0:
            raise ValueError("first")
        time.sleep(0.01)
        done.append(number)

    with blas.workers() as pool:
        with pytest.raises(ValueError, match="first"):
            blas.finish(pool, task, ((number,) for number in range(50)))
        before = list(done)
        time.sleep(0.05)
        assert done == before
        assert len(done) < 49
        blas.finish(pool, done.append, [(100,)])
    assert done[-1] == 100
