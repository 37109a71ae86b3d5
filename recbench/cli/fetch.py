"""`recbench fetch`."""

from pathlib import Path
from typing import Any

import click

from recbench.cli.common import byte_bars, complete, plugin_option, say


@click.command()
@click.argument("names", nargs=-1, required=True, shell_complete=complete("datasets"))
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    help="A file or folder you downloaded by hand.",
)
@click.option("--mirror", metavar="URL", help="Try this place first; also RECBENCH_MIRROR.")
@click.option(
    "--insecure", is_flag=True, help="Ignore certificate errors; only where a digest is pinned."
)
@click.option(
    "--accept-counts",
    is_flag=True,
    help="Keep data with other counts than expected, on the record.",
)
@click.option(
    "-n", "--dry-run", is_flag=True, help="Say what would be fetched from where, and stop."
)
@click.option("-f", "--force", is_flag=True, help="Prepare again what is prepared already.")
@plugin_option
def command(names: tuple[str, ...], dry_run: bool, force: bool, **options: Any) -> None:
    """Download datasets by NAME, verify them and prepare them for runs.

    A download that was cut goes on where it stopped. Files live under RECBENCH_HOME (default:
    your cache folder). With RECBENCH_OFFLINE=1 nothing is downloaded.

    \b
    recbench fetch gowalla
    recbench fetch netflix --from ~/Downloads/nf_prize_dataset.tar.gz
    """
    for name in names:
        if dry_run:
            _explain(name, options["mirror"])
        else:
            _fetch(name, force, options)


def _fetch(name: str, force: bool, options: dict[str, Any]) -> None:
    from recbench.data.open import Access, entry_of, open_dataset, prepared_paths

    with byte_bars() as bars:
        fetching = {key: options[key] for key in ("source", "mirror", "insecure")}
        access = Access(
            fetching={**fetching, "progress": bars},
            accept_counts=options["accept_counts"],
            announce=say,
        )
        prepared = [path for path in prepared_paths(entry_of(name), access.home) if path.exists()]
        if force:
            for path in prepared:
                path.unlink()
        elif prepared and options["source"] is not None:
            say(f"{name} is here already: --from is not looked at; --force reads it")
        dataset = open_dataset(name, access)
    click.echo(f"{name}: {dataset.shape_text}, fingerprint {dataset.fingerprint[:12]}")


def _explain(name: str, mirror: str | None) -> None:
    from recbench.data.fetch.raw import plan
    from recbench.data.open import Access, entry_of

    entry = entry_of(name)
    if entry.terms.text:
        click.echo(f"{name}: {entry.terms.text}")
    for file in plan(entry, Access().home, mirror=mirror):
        size = f"{file.size / 1e6:,.1f} MB" if file.size else "size unknown"
        state = "here" if file.here else f"{file.held:,} bytes held" if file.held else "to fetch"
        click.echo(f"{name}: {file.name} ({size}, {state}) -> {file.path}")
        for url in () if file.here else file.urls:
            click.echo(f"    {url}")
    for step in entry.terms.steps:
        click.echo(f"    by hand: {step}")
