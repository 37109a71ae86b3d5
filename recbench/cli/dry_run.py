"""`recbench run --dry-run`: what a run would do and take, in words."""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import click

from recbench.errors import counted

if TYPE_CHECKING:
    from recbench.campaign.estimate import Estimate
    from recbench.campaign.plan import Trial
    from recbench.campaign.runner import Runner
    from recbench.linalg.held.heldtiles import Holders

UNKNOWN = "unknown"


def explain(runner: "Runner", jobs: int | str) -> None:
    """Print trials, memory and time of a run, without running anything."""
    from recbench.campaign.estimate import estimates

    plan, fits = runner.plan, estimates(runner)
    click.echo(f"{plan.dataset.name}: {plan.dataset.shape_text}, split {plan.rule.text}")
    for line in [*runner.source.outlook, *_counts(runner, fits), *_limit(runner)]:
        click.echo(line)
    spread = runner.worker.context.holders
    if spread is not None and not all(one.refused for one in fits):
        click.echo(f"spread: {_outlook(runner, spread)}")
    elif spread is None and fits:
        click.echo(f"memory: {_memory(fits, jobs if isinstance(jobs, int) else 1)}")
        click.echo(f"time: {_time(fits)}")
    if fits and not isinstance(jobs, int):
        for line in _jobs(fits, runner.worker.context.threads):
            click.echo(line)
    for line in _listed(fits, spread=spread is not None, seeds=len(plan.seeds) > 1):
        click.echo(f"  {line}")


def _outlook(runner: "Runner", holders: "Holders") -> str:
    """What an inverse takes of the workers that are there, as they hold it together."""
    import numpy as np

    from recbench.linalg.held.heldtiles import Wanted, all_of
    from recbench.linalg.held.holder import Source
    from recbench.linalg.tiles import side_for

    context, train = runner.worker.context, runner.worker.split.train
    n = len(np.unique(train.indices))
    dtype = np.dtype(context.dtype).name
    wanted = Wanted(Source(train, 0.0), n, dtype, side_for(n))
    there = wanted.chosen(holders.members(all_of))
    return wanted.outlook(len(there), kept=context.scratch is not None)


def _listed(fits: Sequence["Estimate"], *, spread: bool, seeds: bool) -> Iterator[str]:
    """The fits and their trials; what fits of a model take is said once, if it is the same."""

    def takes(one: "Estimate") -> tuple[str, str]:
        if one.refused:
            return one.task.name, f"would be skipped: {one.refused}"
        return one.task.name, "" if spread else f"{_size(one)}, {_seconds(one)}"

    for (model, needs), alike in groupby(fits, takes):
        some = [[_named(trial, seeds) for trial in one.task.trials] for one in alike]
        alone, told = len(some) == 1, f": {needs}" if needs else ""
        if not alone:
            yield f"{counted(len(some), 'fit')} of {model}, each{told}"
        for first, *others in some:
            yield f"{first}{told}" if alone else f"  {first}"
            yield from (f"{'' if alone else '  '}  + {name}" for name in others)


def _named(trial: "Trial", seeds: bool) -> str:
    """A trial by what is not at its default, and by its seed where models have several."""
    text: str = trial.model.brief
    return f"{text} seed {trial.seed}" if seeds and trial.model.stochastic else text


def _counts(runner: "Runner", fits: Sequence["Estimate"]) -> list[str]:
    """How many trials there are, and how many of them remain."""
    known, folder = len(runner.trials), runner.campaign.folder
    todo = sum(len(one.task.trials) for one in fits)
    finished = known - todo
    lines = (
        [f"{counted(finished, 'finished trial')} found, {runner.total - finished} to run"]
        if finished
        else []
    )
    if known < runner.total:
        lines.append(f"the first {known} of {runner.total} trials; the search proposes the others "
                     "when it knows how these did")  # fmt: skip
    return [*lines, f"{counted(todo, 'trial')} in {counted(len(fits), 'fit')}, into {folder}/"]


def _limit(runner: "Runner") -> list[str]:
    """When no further trials begin."""
    from recbench.doctor import duration

    if math.isinf(runner.limit):
        return []
    took = duration(runner.limit)
    return [f"time limit: no further trial of a model begins when those before took {took}"]


def _memory(fits: Sequence["Estimate"], jobs: int) -> str:
    """The most that is held at once, beside what is free."""
    from recbench.environment import free_memory

    sizes = sorted((one.memory or 0 for one in fits if not one.on_disk), reverse=True)
    needed, free = sum(sizes[:jobs]), free_memory()
    most = min(jobs, len(sizes))
    held = f"{most} fits at once" if most > 1 else "the largest fit"
    parts = [f"{needed / 1e9:.2f} GB for {held}, {free / 1e9:.1f} GB free"] if needed else []
    if needed > free:
        parts[0] += ", so fits that are too large will be skipped"
    disk = sum(one.memory or 0 for one in fits if one.on_disk)
    parts += [f"{disk / 1e9:.2f} GB on disk"] if disk else []
    return "; ".join([*parts, *_unknown([one for one in fits if one.memory is None])])


def _jobs(fits: Sequence["Estimate"], threads: int) -> Iterator[str]:
    """What is known beforehand of how many fits there will be at once, model by model."""
    from recbench.campaign.packing import FIRST, foreseen
    from recbench.environment import free_memory, held_memory, usable_cores

    cores, count = usable_cores(), f"{threads} thread{'' if threads == 1 else 's'}"
    if cores == 1:
        yield "jobs: one fit at a time: there is one core"
        return
    yield (
        f"jobs: one fit at a time, on {count}, until {FIRST} of a model or more are "
        "measured; then as many as end sooner"
    )
    for name in dict.fromkeys(one.task.name for one in fits):
        some = [one for one in fits if one.task.name == name]
        memory = max((one.memory or 0 for one in some if not one.on_disk), default=0)
        seconds = None if some[0].measured else some[0].seconds
        room = free_memory(), held_memory()
        yield f"  {name}: {foreseen(len(some), memory, seconds, cores, *room)}"


def _time(fits: Sequence["Estimate"]) -> str:
    """All fits together, and where that comes from."""
    from recbench.doctor import duration

    sources = {
        "at the speed this machine multiplies matrices, ranking not included": False,
        "as earlier ones on the same data took": True,
    }
    parts = []
    for source, measured in sources.items():
        some = [one.seconds for one in fits if one.seconds and one.measured == measured]
        if some:
            parts.append(f"about {duration(sum(some))} for {counted(len(some), 'fit')}, {source}")
    return "; ".join([*parts, *_unknown([one for one in fits if one.seconds is None])])


def _unknown(fits: Sequence["Estimate"]) -> list[str]:
    names = dict.fromkeys(trial.model.name for one in fits for trial in one.task.trials)
    return [f"{UNKNOWN} for {', '.join(names)}"] if names else []


def _size(one: "Estimate") -> str:
    if one.memory is None:
        return f"memory {UNKNOWN}"
    where = " on disk" if one.on_disk else ""
    return f"{one.memory / 1e9:.2f} GB{where} for {one.what}"


def _seconds(one: "Estimate") -> str:
    from recbench.doctor import duration

    return f"time {UNKNOWN}" if one.seconds is None else f"about {duration(one.seconds)}"
