"""`recbench board`."""

from pathlib import Path

import click

from recbench.cli.common import PATH, complete, plugin_option, say
from recbench.errors import DataError


@click.command()
@click.argument(
    "folders", metavar="[FOLDER]...", type=PATH, nargs=-1, shell_complete=complete("runs")
)
@click.option(
    "-o", "--output", type=PATH, metavar="DIR", default=Path("site"), show_default=True,
    help="The folder to write index.html to.",
)  # fmt: skip
@click.option(
    "--published", type=PATH, multiple=True, metavar="FILE",
    help="A CSV file of printed numbers of your own, beside those that come along; repeatable.",
)  # fmt: skip
@plugin_option
def command(folders: tuple[Path, ...], output: Path, published: tuple[Path, ...]) -> None:
    """Write many results folders as one page: all models on all datasets, ours beside printed.

    A FOLDER holds results or folders of results; the default is results/. Committed tables are
    enough: metrics.csv, manifest.json and, for seconds and memory, costs.csv. Only what has the
    same dataset, split and part stands side by side. Every number leads to its trial, that to the
    command, commit and machine. The page filters by dataset, metric, family and text, and needs no
    network. Folders that cannot be read are named and left out.

    \b
    recbench board results/ -o site/
    """
    from recbench.files import atomic_path
    from recbench.published.rows import load, read_own
    from recbench.report.board.page import Board, page
    from recbench.report.board.sources import gather

    wanted = folders or (Path("results"),)
    for folder in wanted:
        if not folder.is_dir():
            raise DataError(
                f"{folder} is not a folder; `recbench run` makes results/, `recbench board FOLDER` "
                "reads others"
            )
    rows = [row for row in load() if row.table] + [r for path in published for r in read_own(path)]
    sources, left_out = gather(wanted)
    for name in left_out:
        say(f"left out: {name}")
    if not sources:
        raise DataError(
            f"there are no results in {', '.join(map(str, wanted))}; `recbench run` makes some"
        )
    path = output / "index.html"
    try:
        output.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as temporary:
            text = page(Board(sources, left_out, rows))
            temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise DataError(f"{error.filename or path} cannot be written ({error.strerror})") from error
    click.echo(path)
    say("open it in a browser")
