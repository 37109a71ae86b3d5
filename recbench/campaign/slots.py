"""Processes side by side on one machine: each takes a slot, and notes in a file how far it is.

The file of a slot is written by its process alone and read by the runner. Nothing is locked, so a
process that is killed holds up nobody.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

APART = 0.5
"""Seconds from one note of the same work to the next; its end is always noted."""

Said = tuple[str, int, int]
"""A name for the work, what is done, and how much there is in all."""


@dataclass
class Throttle:
    """Lets a note pass if it is the last of its work, or the first for a while."""

    _told: dict[str, float] = field(default_factory=dict)

    def passes(self, what: str, done: int, total: int) -> bool:
        """Whether this one is to be told."""
        now = time.monotonic()
        if done < total and now - self._told.get(what, -APART) < APART:
            return False
        self._told[what] = now
        return True


@dataclass
class Slot:
    """A process's own place among others."""

    folder: Path
    number: int
    _throttle: Throttle = field(default_factory=Throttle)

    def __call__(self, what: str, done: int, total: int) -> None:
        """Note how far some work is."""
        if self._throttle.passes(what, done, total):
            with (self.folder / f"{self.number}.notes").open("a", encoding="utf-8") as file:
                file.write(json.dumps([what, done, total]) + "\n")


class Listener:
    """Reads what the processes of a pool note."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[Path, int] = {}

    def heard(self) -> Iterator[Said]:
        """What was noted since the last time; a line that is still being written comes later."""
        for path in sorted(self.folder.glob("*.notes")):
            start = self._read.get(path, 0)
            with path.open("rb") as file:
                file.seek(start)
                new = file.read()
            whole = new.rfind(b"\n") + 1
            self._read[path] = start + whole
            for line in new[:whole].splitlines():
                what, done, total = json.loads(line)
                yield f"{what} [{int(path.stem) + 1}]", done, total
