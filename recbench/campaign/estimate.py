"""What a run would take: memory as models ask for it, time as measured on this machine.

Nothing is made up. Memory is what a fit reserves before it begins. Time is the operations of a fit
at the speed this machine multiplies matrices with, or what earlier fits of the same model on the
same data took. Where neither is known, it is unknown.
"""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from recbench.campaign.needs import asked_for, operations_of, refusal_of
from recbench.campaign.plan import Plan
from recbench.campaign.row import Row
from recbench.campaign.runner import Runner
from recbench.campaign.tasks import Task, tasks_of
from recbench.campaign.worker import compute_threads
from recbench.errors import RecbenchError
from recbench.linalg.speed import gemm_gflops, seconds_for
from recbench.linalg.types import Sparse
from recbench.models.context import Context
from recbench.registry import MODELS, build


@dataclass(frozen=True)
class Estimate:
    """What one fit would take; None is unknown."""

    task: Task
    memory: int | None = None
    what: str = ""
    """What the memory is for."""
    on_disk: bool = False
    seconds: float | None = None
    measured: bool = False
    """Whether the time is that of earlier fits, ranking included."""
    refused: str = ""
    """Why it would be skipped."""


def estimates(runner: Runner) -> list[Estimate]:
    """What the fits would take that a run has left, as far as its search knows them."""
    runner.replay()
    tasks, worker = tasks_of(runner.todo(), "valid"), runner.worker
    rows = runner.campaign.rows().values()
    context = replace(worker.context, strangers=worker.strangers)
    return estimate(runner.plan, tasks, rows, worker.split.train, context)


def as_frame(fits: Iterable[Estimate]) -> pd.DataFrame:
    """One line per fit, with the trials that share it; memory in bytes."""
    lines = []
    for one in fits:
        first, texts = one.task.trials[0], [trial.model.text for trial in one.task.trials]
        lines.append((first.model.name, first.seed, texts, one.memory, one.on_disk, one.seconds,
                      one.measured))  # fmt: skip
    names = ["model", "seed", "trials", "memory", "on disk", "seconds", "measured"]
    return pd.DataFrame(lines, columns=names)


def estimate(
    plan: Plan, tasks: Sequence[Task], rows: Iterable[Row], train: Sparse, ctx: Context
) -> list[Estimate]:
    """What fits of these tasks would take, knowing earlier rows."""
    earlier = earlier_fits(rows, plan)
    speed: list[float] = []

    def gflops() -> float:
        if not speed:
            with compute_threads(ctx.threads):
                speed.append(gemm_gflops())
        return speed[0]

    return [_timed(_sized(task, train, ctx), earlier, train, ctx, gflops) for task in tasks]


def _sized(task: Task, train: Sparse, ctx: Context) -> Estimate:
    models = [trial.model for trial in task.trials]
    asked, refused = asked_for(models, train, ctx), refusal_of(models, train, ctx)
    if asked is None:
        return Estimate(task, refused=refused)
    return Estimate(task, asked.size, asked.what, asked.on_disk, refused=refused)


def _timed(
    fit: Estimate,
    earlier: dict[str, list[float]],
    train: Sparse,
    ctx: Context,
    gflops: Callable[[], float],
) -> Estimate:
    models = [trial.model for trial in fit.task.trials]
    operations = operations_of(models, train, ctx)
    if operations is not None:
        return replace(fit, seconds=seconds_for(operations, gflops()))
    if models[0].name in earlier:
        seconds = statistics.median(earlier[models[0].name]) * _share(fit.task)
        return replace(fit, seconds=seconds, measured=True)
    return fit


def _share(task: Task) -> float:
    """The part of its rounds that a fit makes before a search stops it."""
    most = max(trial.model.most_rounds for trial in task.trials)
    stop = task.trials[0].stop
    return min(stop / most, 1.0) if stop and most else 1.0


def earlier_fits(rows: Iterable[Row], plan: Plan) -> dict[str, list[float]]:
    """By model: what whole fits took, ranking included, on the same data.

    Rows hold their trial's share of a fit: those of one fit are put together again.
    """
    fits: dict[tuple[object, ...], dict[str, float]] = {}
    for row in rows:
        same = (row.fingerprint, row.split, row.dtype) == (
            plan.dataset.fingerprint, plan.rule.text, plan.dtype,
        )  # fmt: skip
        if not same or row.status != "ok" or row.part != "valid" or row.stopped:
            continue
        try:
            model = build(row.text, MODELS)
        except RecbenchError:  # a plugin that is not given now
            continue
        fit = fits.setdefault((row.run, row.seed, model.family.key(model)), {})
        fit[row.model] = fit.get(row.model, 0.0) + row.fit_seconds + row.score_seconds
    seconds: dict[str, list[float]] = {}
    for fit in fits.values():
        for name in fit:
            seconds.setdefault(name, []).append(sum(fit.values()))
    return seconds
