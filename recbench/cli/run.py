"""`recbench run`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recbench.cli.common import Bars, byte_bars, plugin_option, say, whole_numbers, words_of
from recbench.cli.dry_run import explain
from recbench.cli.output import show_views
from recbench.cli.run_options import as_config, run_options, sources_of
from recbench.errors import DataError, RecbenchError, counted

if TYPE_CHECKING:
    from recbench.campaign.request import Finished, Request
    from recbench.campaign.row import Row
    from recbench.campaign.runner import Runner
    from recbench.data.open import OwnFile
    from recbench.report.tables import View


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
    recbench run -d gowalla -d yelp2018 -m ease -m ials     both, in results folders of their own
    recbench run --data my.csv --user u --item i --value stars --min 4 -m ease
    """
    if options["print_config"]:
        click.echo(as_config(ctx), nl=False)
        return
    shown = not options["quiet"]
    rows, tables, unwritten = list["Row"](), list["View"](), list[str]()
    for source in sources_of(options):
        finished = _run_on(source, options, ctx.meta.get("plugins", ()))
        if finished is None:  # a dry run
            continue
        rows += finished.rows
        unwritten += finished.unwritten
        tables += _tables(finished, several=len(options["dataset"]) > 1)
        if options["kind"] == "rich":
            show_views(tables, "rich")
            tables = []
        if shown:
            say(f"results: {finished.campaign.folder}/ (metrics.csv, per-user/, manifest.json)")
    if tables:
        show_views(tables, options["kind"])
    _fail_if_any_failed(rows)
    _fail_if_nothing_was_measured(rows)
    if unwritten:
        raise DataError(
            f"{counted(len(unwritten), 'model')} could not be kept, the first is {unwritten[0]}; "
            "what was measured is in the results, and the same command tries again"
        )


def _run_on(
    source: "str | OwnFile", options: dict[str, Any], plugins: tuple[Path, ...]
) -> "Finished | None":
    """Run on one source of data; None where only words were wanted."""
    shown = not options["quiet"]
    announce, bars = say if shown else _nobody, Bars(shown, verbose=options["verbose"])
    with byte_bars(shown) as downloads:
        listeners = {"announce": announce, "progress": bars, "downloads": downloads}
        listeners["at_work"] = bars.at_work
        request = _request(source, options, plugins=plugins, **listeners)
        runner = request.runner()
    with bars:
        if options["dry_run"]:
            explain(runner, options["jobs"])
            return None
        finished = _carried_out(request, runner)
    if options["verbose"]:
        _tell_steps(finished)
    return finished


def _tell_steps(finished: "Finished") -> None:
    """What was spent on each kind of work; the manifest has it as well."""
    for name, spent in finished.steps.items():
        say(
            f"{name}: {spent.seconds:.1f} s, {spent.processor_seconds:.1f} s of processors, "
            f"{spent.peak_bytes / 1e9:.2f} GB"
        )


def _tables(finished: "Finished", *, several: bool) -> "list[View]":
    """The tables of a run, with the dataset where there are more runs."""
    from recbench.report.trials import views

    tables = views(finished.rows, finished.plan.select, finished.unbegun)
    for table in tables if several else ():
        table.title = f"{finished.plan.dataset.name}: {table.title}"
        table.frame.insert(0, "dataset", finished.plan.dataset.name)
        table.unseen = [*table.unseen, "dataset"]
    return tables


def _nobody(text: str) -> None:
    """Tell nobody."""


def _request(source: "str | OwnFile", options: dict[str, Any], **others: Any) -> "Request":
    """The run that was typed."""
    from recbench.campaign.keep import Keep
    from recbench.campaign.plan import parts_for
    from recbench.campaign.request import Request

    parts = parts_for(validate=not options["no_validate"], reveal_test=options["reveal_test"])
    return Request(
        data=source, models=options["model"], sets=options["sets"],
        grids=options["grid"], search=options["search"], trials=options["trials"],
        time_limit=options["time_limit"], search_seed=options["search_seed"],
        split=options["split"], metrics=words_of(options["metric"]), select=options["select"],
        seeds=whole_numbers(options["seed"], "--seed"), dtype=options["dtype"],
        parts=parts, validate=options["validate"], one_each=options["no_validate"],
        output=options["output"],
        jobs=options["jobs"], executor=options["executor"], scheduler=options["scheduler"],
        spread=options["spread"],
        threads=options["threads"], devices=tuple(words_of((options["device"],))),
        scratch=options["tiles_on_disk"], trace=options["trace"],
        keep=Keep(options["save"], options["save_lists"]),
        debug=options["debug"], force=options["force"], retry_failed=options["retry_failed"],
        command=["recbench", *sys.argv[1:]], **others,
    )  # fmt: skip


def _carried_out(request: "Request", runner: "Runner") -> "Finished":
    try:
        return request.carry_out(runner)
    except KeyboardInterrupt as interrupt:
        say(f"\n{interrupt}")
        raise


def _fail_if_any_failed(rows: "list[Row]") -> None:
    failed = [row for row in rows if row.status == "failed"]
    if failed:
        one = failed[0]
        raise RecbenchError(
            f"{counted(len(failed), 'trial')} failed, the first is {one.text}: {one.reason}"
        )


def _fail_if_nothing_was_measured(rows: "list[Row]") -> None:
    """A table without one number is no success, whoever declined to fill it."""
    for part, name in (("valid", "validation"), ("test", "test")):
        here = [row for row in rows if row.part == part]
        if here and all(row.status != "ok" for row in here):
            raise RecbenchError(
                f"nothing was measured on {name}: {counted(len(here), 'trial')} skipped, the first "
                f"is {here[0].text}: {here[0].reason}"
            )
