"""Trials that are fitted together, and what one process keeps of them while it is at it."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from recbench.campaign.needs import Needs
from recbench.campaign.plan import Trial, trial_id
from recbench.campaign.worker import Worker
from recbench.environment import code_digest
from recbench.errors import check_takes
from recbench.models.checkpoint import Checkpoint


@dataclass
class Task:
    """Trials that share a heavy step, to be measured on one part."""

    trials: list[Trial]
    part: str
    step: str
    """Names the heavy step, the same in every process."""
    suspect: bool = False
    """Was under way when a process died: it is tried again alone, to find the one to blame."""
    begun: float = 0.0
    """When it was started on, by the monotonic clock."""
    claim: FileLock | None = None
    needs: Needs | None = None
    """What it takes, once an executor wants to know."""
    saved: Path | None = None
    """Where its fits are saved, once it is started on."""

    @property
    def name(self) -> str:
        """The model that it is of, of several the first."""
        return self.trials[0].model.name

    @property
    def title(self) -> str:
        """What a reader of progress is told of it."""
        first, *others = self.trials
        seed = f" seed {first.seed}" if first.seed else ""
        more = f" and {len(others)} more" if others else ""
        return f"{first.model.brief}{seed}{more}{' for the test' if self.part == 'test' else ''}"

    def release(self) -> None:
        """Let other processes have it."""
        if self.claim is not None:
            self.claim.release()

    def find_place(self, folder: Path, worker: Worker) -> None:
        """Have its fits saved under a name that other trials or other code do not have.

        What those had saved for the same step is removed.
        """
        plan = worker.plan
        measured = [metric.text for metric in plan.metrics] if worker.trace else []
        digest = trial_id(
            *sorted(trial.id for trial in self.trials), self.part, plan.select, *measured,
            code_digest(*plan.code(self.trials)),
        )  # fmt: skip
        self.saved = folder.resolve() / f"{self.step}-{self.part}-{digest}"
        for other in self.saved.parent.glob(f"{self.step}-{self.part}-*"):
            if other != self.saved:
                Checkpoint(other).clear()


def tasks_of(trials: Sequence[Trial], part: str) -> list[Task]:
    """Put trials that share a heavy step together, in order of first appearance."""
    groups: dict[Hashable, Task] = {}
    for trial in trials:
        family = trial.model.family
        what = f"key of the family of {trial.model.name}"
        check_takes(family.key, (trial.model,), what, "key(self, model)")
        key = (type(family).__qualname__, family.key(trial.model), trial.seed)
        task = groups.setdefault((key, trial.stop), Task([], part, trial_id(repr(key))))
        task.trials.append(trial)
    return list(groups.values())
