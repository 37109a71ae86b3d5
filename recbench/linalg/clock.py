"""Seconds of computing: a clock that stands still while machine code is made or loaded.

Whatever a machine computes for the first time has to be compiled, and what every process computes
for the first time has to be loaded. That is no part of what a fit takes, wherever in it the code is
met, and whoever wrote it. So nobody has to know beforehand which kernels a fit will need.
"""

import threading
import time


class Clock:
    """Time goes by unless the clock is held, by one thread or by several."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._since = 0.0
        self._stood = 0.0

    def now(self) -> float:
        """Seconds since whenever; only differences mean something."""
        with self._lock:
            return (self._since if self._holders else time.perf_counter()) - self._stood

    @property
    def stood(self) -> float:
        """For how many seconds it has stood still."""
        with self._lock:
            return self._stood + (time.perf_counter() - self._since if self._holders else 0.0)

    def hold(self) -> None:
        """Stand still from now on; each hold needs a release."""
        with self._lock:
            if not self._holders:
                self._since = time.perf_counter()
            self._holders += 1

    def release(self) -> None:
        """Go on, if nobody else holds it."""
        with self._lock:
            self._holders -= 1
            if not self._holders:
                self._stood += time.perf_counter() - self._since

    def __enter__(self) -> "Clock":
        self.hold()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


CLOCK = Clock()
"""The clock of this process."""
