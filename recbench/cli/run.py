"""`recbench run`."""

import sys
from typing import TYPE_CHECKING, Any

import click

from recbench.cli.common import (
    Bars,
    byte_bars,
    plugin_option,
    say,
    split_commas,
    whole_numbers,
)
from recbench.cli.dry_run import explain
from recbench.cli.output import show_views
from recbench.cli.run_options import as_config, run_options
from recbench.errors import RecbenchError, UsageError, counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from recbench.campaign.plan import Plan
    from recbench.campaign.row import Row
    from recbench.campaign.search.proposals import Proposals
    from recbench.data.dataset import Dataset
    from recbench.models.base import Model


@click.command()
@run_options
@plugin_option
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Fit models, tune them on validation, and measure the best of each on test.

    Finished trials are skipped, so a run that was interrupted goes on where it stopped, and a
    wider grid adds to what is there. Models that share their heavy step are fitted together: a
    whole grid over b costs little more than one fit.

    \b
    recbench run --model deql-l2 --grid b=0.1:2.0
    recbench run -m ease -m edlae --grid l2=10:1000:log7 --grid edlae.p=0.2:0.8
    recbench run -m edlae --grid l2=1:1000 --search random --trials 50
    recbench run --data my.csv --user u --item i --value stars --min 4 -m ease
    """
    if options["print_config"]:
        click.echo(as_config(ctx), nl=False)
        return
    if not options["model"]:
        raise UsageError("which model? for example -m ease; `recbench list models` shows all")
    from recbench.campaign.folder import Campaign, default_folder
    from recbench.campaign.runner import Runner
    from recbench.campaign.worker import Worker
    from recbench.report.trials import views

    announce = _nobody if options["quiet"] else say
    plan, search = _plan(options, announce)
    folder = options["output"] or default_folder(plan.dataset.name, plan.rule.name)
    with Bars(not options["quiet"], verbose=options["verbose"]) as bars:
        worker = Worker(plan, _context(options, bars), options["debug"], options["trace"])
        runner = Runner(
            worker, Campaign(folder), force=options["force"],
            retry_failed=options["retry_failed"], announce=announce,
            command=["recbench", *sys.argv[1:]], search=search,
        )  # fmt: skip
        if options["dry_run"]:
            explain(runner, options["jobs"])
            return
        runner.executor = _executor(ctx, options, worker)
        rows = _run(runner)
    show_views(views(rows, plan.select), options["kind"])
    announce(f"results: {folder}/ (metrics.csv, per-user/, manifest.json)")
    _fail_if_any_failed(rows)


def _nobody(text: str) -> None:
    """Tell nobody."""


def _plan(options: dict[str, Any], announce: Any) -> "tuple[Plan, Proposals]":
    """Check everything that was typed before touching any data."""
    from recbench.campaign.plan import Plan, default_metrics
    from recbench.campaign.search.grammar import split_from
    from recbench.evaluate.metrics import parse_metric

    models, search = _models(options)
    seeds = whole_numbers(options["seed"], "--seed")
    metrics = [parse_metric(text) for text in split_commas(options["metric"])]
    chosen = parse_metric(options["select"]).text if options["select"] else None
    rule = split_from(options["split"]) if options["split"] else None
    dataset, default_split = _dataset(options, announce)
    rule = rule or split_from(default_split)
    metrics = metrics or default_metrics(rule)
    if chosen and chosen not in {metric.text for metric in metrics}:
        metrics = [*metrics, parse_metric(chosen)]
    plan = Plan(
        dataset, rule, models, metrics, select=chosen or metrics[0].text, seeds=seeds,
        dtype=options["dtype"], parts=("valid", "test") if options["reveal_test"] else ("valid",),
    )  # fmt: skip
    return plan, search(plan)


def _models(options: dict[str, Any]) -> "tuple[list[Model], Callable[[Plan], Proposals]]":
    """The models that are known beforehand, and what makes trials of them."""
    from recbench.campaign.search.grammar import models_from, spaces_from
    from recbench.campaign.search.proposals import (
        Listed,
        Tpe,
        check_spaces,
        new_study,
        random_models,
    )

    how, trials, seed = options["search"], options["trials"], options["search_seed"]
    typed = options["model"], options["sets"], options["grid"]
    if how == "grid":
        if trials is not None:
            raise UsageError("--trials belongs to --search random or --search tpe")
        return models_from(*typed), lambda plan: Listed(plan.trials)
    if trials is None:
        raise UsageError(f"--search {how} needs --trials N: so many settings of each model")
    spaces = spaces_from(*typed)
    check_spaces(spaces)
    if how == "random":
        about = {"by": how, "trials": trials, "seed": seed, "spaces": [s.text for s in spaces]}
        return random_models(spaces, trials, seed), lambda plan: Listed(plan.trials, about)
    new_study("")  # or it says what is not installed
    return [], lambda plan: Tpe(plan, spaces, trials, seed)


def _dataset(options: dict[str, Any], announce: Any) -> "tuple[Dataset, str]":
    """The dataset, and the split it is used with unless --split says otherwise."""
    from recbench.data.open import Access, OwnFile, default_split, open_dataset, open_file

    if options["data"] is None:
        for name in ("value", "time", "minimum"):
            if options[name] is not None:
                raise UsageError(f"--{name.replace('minimum', 'min')} belongs to --data FILE")
        name = options["dataset"]
        with byte_bars(not options["quiet"]) as bars:
            access = Access(fetching={"progress": bars}, announce=announce)
            return open_dataset(name, access), default_split(name)
    if options["minimum"] is not None and options["value"] is None:
        raise UsageError("--min needs --value COLUMN, the column it applies to")
    own = OwnFile(
        options["data"], user=options["user"], item=options["item"], value=options["value"],
        time=options["time"], minimum=options["minimum"], core=options["core"],
    )  # fmt: skip
    dataset = open_file(own)
    announce(f"{options['data']}: {dataset.shape_text}")
    return dataset, "strong"


def _context(options: dict[str, Any], bars: Bars) -> Any:
    from recbench.environment import usable_cores
    from recbench.models.context import Context

    return Context(
        threads=options["threads"] or max(1, usable_cores() // options["jobs"]),
        scratch=options["tiles_on_disk"],
        progress=bars,
    )


def _executor(ctx: click.Context, options: dict[str, Any], worker: Any) -> Any:
    """Where groups of trials are fitted."""
    from recbench.campaign.executors import Dask, InProcess, Parcel, Processes

    if options["executor"] == "local" and options["jobs"] == 1:
        return InProcess(worker)
    plugins = ctx.meta.get("plugins", ())
    if options["executor"] == "local":
        return Processes(Parcel.of(worker, plugins), options["jobs"])
    if options["scheduler"] is None:
        raise UsageError("--executor dask needs --scheduler ADDRESS, such as tcp://host:8786")
    return Dask(Parcel.of(worker, plugins), options["scheduler"])


def _run(runner: Any) -> "list[Row]":
    try:
        rows: list[Row] = runner.run()
    except KeyboardInterrupt:
        done = sum(row.part == "valid" for row in runner.rows())
        say(f"\ninterrupted after {done} of {runner.total} trials; "
            "what is finished is kept: the same command goes on from there")  # fmt: skip
        raise
    return rows


def _fail_if_any_failed(rows: "list[Row]") -> None:
    failed = [row for row in rows if row.status == "failed"]
    if failed:
        one = failed[0]
        raise RecbenchError(
            f"{counted(len(failed), 'trial')} failed, the first is {one.text}: {one.reason}"
        )
