"""How many cores some work would keep busy, on a machine that has other work as well.

Processor time cannot tell: where cores are scarce threads wait for one, or for each other, and look
idle. So it is looked at, again and again, how many threads run or are ready to.
"""

import threading
import time
from contextlib import suppress
from pathlib import Path

TASKS = Path("/proc/self/task")
"""Where Linux describes the threads of this process."""
APART = 0.02
"""Seconds between looks."""
READY = b"R"


class Busy:
    """Looks at the threads of this process while it is entered."""

    def __init__(self) -> None:
        self.looks = 0
        self.seconds = self.cores = 0.0
        self.crowding = 1.0
        """How many times as long it took, for what other work took of the cores."""
        self._found = 0
        self._left = threading.Event()

    def __enter__(self) -> "Busy":
        self._cpu, self._start = time.process_time(), time.perf_counter()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._thread.join()
        self.seconds = time.perf_counter() - self._start
        self.cores = had = (time.process_time() - self._cpu) / self.seconds
        if not TASKS.is_dir():  # nobody tells: what cores were had must do
            self.looks = int(self.seconds / APART)
        elif self.looks:
            self.cores = max(had, self._found / self.looks)
            self.crowding = self.cores / max(had, APART)

    def _look(self) -> None:
        mine = str(threading.get_native_id())
        while not self._left.wait(APART):
            with suppress(OSError):
                others = [path for path in TASKS.iterdir() if path.name != mine]
                self._found += sum(_is_ready(path / "stat") for path in others)
                self.looks += 1


def _is_ready(path: Path) -> bool:
    """Whether a thread runs or waits for a core; one that has just ended does not."""
    with suppress(OSError):
        return path.read_bytes().rpartition(b") ")[2][:1] == READY
    return False
