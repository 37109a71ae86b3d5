"""`recbench check`."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recbench.cli.common import PATH, Bars, complete, plugin_option, say
from recbench.cli.output import format_options, show_views
from recbench.errors import DataError, RecbenchError, unknown

if TYPE_CHECKING:
    from recbench.published.check import Finding
    from recbench.published.rows import Published


@click.command()
@click.argument("datasets", nargs=-1, shell_complete=complete("datasets"))
@click.option("-m", "--model", multiple=True, shell_complete=complete("models"),
              help="Only rows of these models.")  # fmt: skip
@click.option("--paper", multiple=True, help="Only rows of these papers, such as deql.")
@click.option("-o", "--output", type=PATH, default="results", show_default=True,
              help="Where the runs are kept; those that this very code made, by its content, are "
                   "not run again.")  # fmt: skip
@click.option("--published", type=PATH, multiple=True, metavar="FILE",
              help="Check the rows of your own CSV file instead of those that come with recbench; "
                   "docs/checking.md has its columns.")  # fmt: skip
@click.option("-f", "--force", is_flag=True, help="Run everything again.")
@click.option("--strict", is_flag=True,
              help="Fail as well if a row could not be run for lack of data or memory, or if none "
                   "was.")  # fmt: skip
@click.option("--search-missing", is_flag=True,
              help="Search rows without known parameters by grids of ours, tuned on validation, "
                   "and record what is found.")  # fmt: skip
@click.option("--found", type=PATH, metavar="FILE",
              help="Where found parameters are recorded and read from; default: found.csv in the "
                   "folder of the runs.")  # fmt: skip
@click.option("--junit", type=PATH, metavar="FILE", help="Also write JUnit XML, a test per row.")
@click.option("--all", "everything", is_flag=True, help="List rows that could not be run, too.")
@click.option("--threads", type=click.IntRange(min=1), help="Default: every core.")
@format_options
@plugin_option
def command(
    datasets: tuple[str, ...], model: tuple[str, ...], paper: tuple[str, ...], output: Path,
    published: tuple[Path, ...], force: bool, strict: bool,
    search_missing: bool, found: Path | None, junit: Path | None, everything: bool,
    threads: int | None, kind: str,
) -> None:  # fmt: skip
    """Run the published numbers of DATASETS (default: all at hand) and compare with ours.

    A row is run if its data are here and the parameters that reproduce it are known. The exit
    code is 1 only if a value is worse than the one recorded with it; rows whose data are missing
    are counted, and the last lines say what to fetch. --strict makes them a failure: exit code 3.
    In GitHub Actions the table also goes to the job's summary.

    \b
    recbench check debian
    recbench check gowalla -m ease --strict
    recbench check --published my.csv
    recbench check --search-missing --junit check.xml
    """
    from recbench.campaign.request import Request
    from recbench.data.open import at_hand
    from recbench.published.check import check, regressions, run_known, unchecked
    from recbench.published.found import search_unknown
    from recbench.report.findings import view

    found = found or output / "found.csv"
    rows = _rows(published, found, datasets, model, paper)
    with Bars() as bars:
        how = Request(
            threads=threads, progress=bars, at_work=bars.at_work, force=force, announce=say
        )
        known = partial(run_known, folder=output, how=how)
        unknown = partial(search_unknown, folder=output, how=how, found=found)
        opened = partial(at_hand, announce=say)
        findings = check(rows, opened, known, unknown if search_missing else None, say)
    table = view(findings, everything)
    show_views([table], kind)
    _tell_github(table, findings)
    if junit is not None:
        _write_junit(findings, junit)
    worse = regressions(findings)
    if worse:
        raise RecbenchError(worse)
    left = unchecked(findings)
    if left is not None and strict:
        raise left
    if left is not None:
        say(f"{left}; --strict makes that a failure")


def _rows(
    published: Sequence[Path],
    found: Path,
    datasets: Sequence[str],
    model: Sequence[str],
    paper: Sequence[str],
) -> "list[Published]":
    """The published rows that are asked for, with what was found for them before."""
    from recbench.published.found import read_found, with_found
    from recbench.published.rows import load, read_own

    own = [row for path in published for row in read_own(path)]
    rows = with_found(own or load(), read_found(found))
    for wanted, known in ((datasets, "our_dataset"), (model, "our_model"), (paper, "paper")):
        names = {getattr(row, known) for row in rows} - {""}
        for name in wanted:
            if name not in names:
                raise unknown(f"{known.removeprefix('our_')} with published numbers", name, names)
        rows = [row for row in rows if not wanted or getattr(row, known) in wanted]
    return rows


def _write_junit(findings: "Sequence[Finding]", path: Path) -> None:
    from recbench.published.junit import junit

    try:
        path.write_text(junit(findings), encoding="utf-8")
    except OSError as error:
        raise DataError(f"--junit {path} cannot be written ({error.strerror})") from error


def _tell_github(table: Any, findings: "Sequence[Finding]") -> None:
    """Add the table to the summary of a GitHub job, if this is one, and mark what got worse."""
    from recbench.report.formats import text

    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text([table], "md") + "\n")
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for finding in findings:
            if finding.regressed:
                say(f"::error title=recbench check::{finding.row.title} is worse than recorded")
