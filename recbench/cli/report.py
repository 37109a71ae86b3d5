"""`recbench report`."""

from pathlib import Path

import click

from recbench.cli.common import complete, say
from recbench.cli.run_options import PATH
from recbench.cli.show import newest
from recbench.errors import DataError


@click.command()
@click.argument("folder", type=PATH, required=False, shell_complete=complete("runs"))
@click.option("-o", "--output", type=PATH, help="The file; default FOLDER/report.html.")
@click.option("--select", help="The metric to rank by; default: as in the last run.")
def command(folder: Path | None, output: Path | None, select: str | None) -> None:
    """Write a results FOLDER (default: the newest) as one HTML file that needs no network.

    Sortable tables, the landscape of every tuned model, quality against cost, and how the
    numbers were made; for dark and light screens, phones and print.
    """
    from recbench.files import atomic_path
    from recbench.metrics import parse_metric
    from recbench.page import page
    from recbench.results import Campaign

    campaign = Campaign.open(folder or newest())
    if not campaign.rows():
        raise DataError(f"{campaign.folder} holds no finished trials yet")
    chosen = parse_metric(select).text if select else campaign.select()
    path = output or campaign.folder / "report.html"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as temporary:
            temporary.write_text(page(campaign, chosen), encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error.strerror})") from error
    click.echo(path)
    say("open it in a browser")
