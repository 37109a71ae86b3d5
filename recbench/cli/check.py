"""`recbench check`."""

import os
from pathlib import Path
from typing import Any

import click

from recbench.cli.common import Bars, complete, plugin_option, say
from recbench.cli.run import show_views
from recbench.cli.run_options import FORMATS, PATH
from recbench.errors import RecbenchError, unknown


@click.command()
@click.argument("datasets", nargs=-1, shell_complete=complete("datasets"))
@click.option("-m", "--model", multiple=True, shell_complete=complete("models"),
              help="Only rows of these models.")  # fmt: skip
@click.option("--paper", multiple=True, help="Only rows of these papers, such as deql.")
@click.option("-o", "--output", type=PATH, default="results", show_default=True,
              help="Where the runs are kept; finished ones are not run again.")  # fmt: skip
@click.option("--all", "everything", is_flag=True, help="List rows that could not be run, too.")
@click.option("--threads", type=click.IntRange(min=1), help="Default: every core.")
@click.option("--format", "kind", type=FORMATS, default="rich", show_default=True)
@click.option("--json", "kind", flag_value="json", help="The same as --format json.")
@plugin_option
def command(
    datasets: tuple[str, ...], model: tuple[str, ...], paper: tuple[str, ...], output: Path,
    everything: bool, threads: int | None, kind: str,
) -> None:  # fmt: skip
    """Run the published numbers of DATASETS (default: all at hand) and compare with ours.

    A row is run if its data are here and the parameters that reproduce it are known. The exit
    code is 1 only if a value is worse than the one recorded with it; rows whose data are missing
    are counted, and the last lines say what to fetch. In GitHub Actions the table also goes to
    the job's summary.

    \b
    recbench check debian
    recbench check gowalla -m ease
    """
    from recbench.check import check, view
    from recbench.environment import usable_cores
    from recbench.models.base import Context
    from recbench.published import load

    rows = load()
    for wanted, known in ((datasets, "our_dataset"), (model, "our_model"), (paper, "paper")):
        names = {getattr(row, known) for row in rows} - {""}
        for name in wanted:
            if name not in names:
                raise unknown(f"{known.removeprefix('our_')} with published numbers", name, names)
        rows = [row for row in rows if not wanted or getattr(row, known) in wanted]
    with Bars() as bars:
        context = Context(threads=threads or usable_cores(), progress=bars)
        findings = check(rows, _at_hand, output, context, say)
    made = view(findings, everything)
    show_views([made], kind)
    _tell_github(made)
    regressed = sum(finding.regressed for finding in findings)
    if regressed:
        raise RecbenchError(f"{regressed} numbers are worse than recorded")


def _at_hand(name: str) -> Any:
    """A dataset that needs no download, else None."""
    from recbench.datasets import Access, entry_of, open_dataset, state_of

    access = Access(announce=say)
    state = state_of(entry_of(name), access.home)
    return open_dataset(name, access) if state in ("embedded", "ready") else None


def _tell_github(made: Any) -> None:
    """Add the table to the summary of a GitHub job, if this is one."""
    from recbench.report import text

    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text([made], "md") + "\n")
