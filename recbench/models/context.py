"""What a fit may ask of the world: a seed, memory, threads, how well it does on validation."""

import hashlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from recbench.environment import free_memory, usable_cores
from recbench.errors import Refused
from recbench.linalg.types import Note, quiet
from recbench.models.checkpoint import Checkpoint
from recbench.models.scorers import Scorer

if TYPE_CHECKING:
    import pyarrow as pa  # a tenth of a second that listing models need not take

    from recbench.linalg.held.heldtiles import Holders


@dataclass
class Context:
    """What a fit may ask of the world; everything else is in the model or the train matrix."""

    seed: int = 0
    threads: int = field(default_factory=usable_cores)
    device: str = "cpu"
    """Where models that can compute elsewhere do so, such as cuda:0; one for each slot."""
    dtype: npt.DTypeLike = np.float32
    memory: int | None = None
    """Bytes a fit may use; None is whatever is free."""
    scratch: Path | None = None
    """Where a fit may keep large arrays and checkpoints on disk; None keeps them in memory."""
    holders: "Holders | None" = None
    """Who holds a large inverse instead of this process, and ranks with it."""
    audience: "tuple[pa.Array, pa.Array] | None" = None
    """Ids of the users about to be ranked and of the items, for models made elsewhere."""
    strangers: int = 0
    """How many users that are not in the train matrix will be ranked for, in both parts."""
    validate: Callable[[Scorer], float] | None = None
    """Scores a half-trained model on held-out data, for early stopping; higher is better."""
    watch: Callable[[Scorer], Mapping[str, float]] | None = None
    """Where a trace is wanted: measures a half-trained model, to be noted and not acted upon."""
    rounds: Mapping[str, int] = field(default_factory=dict)
    """By a model's text: after how many rounds validation stopped it, where it cannot be asked."""
    stop: int = 0
    """After how many rounds a fit in rounds is stopped, to go on from its checkpoint if at all; 0:
    it makes all of them."""
    checkpoint: Checkpoint | None = None
    """Where a fit in rounds is saved, so that a killed one can go on."""
    progress: Note = quiet

    def stream(self, role: str = "") -> np.random.Generator:
        """Random numbers for one role, such as negatives: no role's depend on another's use.

        Without a role they are those of the seed itself.
        """
        if not role:
            return np.random.default_rng(self.seed)
        digest = hashlib.sha256(role.encode()).digest()
        return np.random.default_rng([self.seed, int.from_bytes(digest[:16], "little")])

    def reserve(self, needed: int, what: str, advice: str) -> None:
        """Refuse, in a sentence, a job that does not fit in memory."""
        free = self.memory if self.memory is not None else free_memory()
        if needed > free:
            raise Refused(f"{what} needs {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB free; {advice}")

    def reserve_disk(self, needed: int, what: str) -> None:
        """Make the scratch folder, and refuse a job that does not fit on its disk."""
        assert self.scratch is not None
        self.scratch.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.scratch).free
        if needed > free:
            raise Refused(
                f"{what} needs {needed / 1e9:.1f} GB in {self.scratch}, "
                f"{free / 1e9:.1f} GB free; choose another folder"
            )
