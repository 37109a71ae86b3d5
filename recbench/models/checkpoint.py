"""What a fit that was killed goes on from: a folder of files, each written whole.

The folder is named after the trials, the part and the code that fits them, and goes when the
trials are recorded. Nothing here can fail a fit: what cannot be written or read is not there.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from recbench.files import atomic_path

State = Mapping[str, npt.NDArray[Any]]
NOTES = "notes"
"""The array that holds the notes, as JSON in bytes."""
FIRST = 2.0
"""Seconds before anything is saved: shorter fits are done again."""
SHARE = 0.1
"""The share of a fit's time that saving may take."""


@dataclass
class Checkpoint:
    """A folder for one group of trials; its fits have folders in it."""

    folder: Path
    earlier: float = 0.0
    """Seconds that fits took before they were killed, so far as they go on from there."""
    _next: dict[str, float] = field(default_factory=dict)

    def save(self, fit: str, name: str, state: State, notes: Mapping[str, Any]) -> None:
        """Write arrays, and notes: numbers, NumPy's too, in lists and mappings."""
        text = np.frombuffer(json.dumps(notes, default=float).encode(), dtype=np.uint8)
        arrays: dict[str, Any] = {**state, NOTES: text}
        path = self._path(fit, name)
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_path(path) as temporary, temporary.open("wb") as file:
                np.savez(file, **arrays)

    def save_in_time(
        self, fit: str, name: str, seconds: float, make: Callable[[], tuple[State, Any]]
    ) -> None:
        """Save what `make` gives, unless that would take too large a share of the fit's seconds."""
        if seconds < self._next.get(fit, FIRST):
            return
        start = time.perf_counter()
        self.save(fit, name, *make())
        self._next[fit] = seconds + (time.perf_counter() - start) / SHARE

    def load(self, fit: str, name: str) -> tuple[dict[str, npt.NDArray[Any]], Any] | None:
        """Read what `save` wrote; None where that is nothing, or damaged."""
        try:
            with self._path(fit, name).open("rb") as file, np.load(file) as arrays:
                state = {name: arrays[name] for name in arrays.files}
            return state, json.loads(state.pop(NOTES).tobytes())
        except Exception:  # noqa: BLE001 - there are a dozen ways to find out that a file is damaged
            return None

    def clear(self) -> None:
        """Remove everything."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, fit: str, name: str) -> Path:
        digest = hashlib.sha256(fit.encode()).hexdigest()[:12]
        return self.folder / digest / f"{name}.npz"
