"""`recbench show`."""

from pathlib import Path

import click

from recbench.cli.common import complete
from recbench.cli.run import show_views
from recbench.errors import DataError


@click.command()
@click.argument(
    "folder", type=click.Path(path_type=Path), required=False, shell_complete=complete("runs")
)
@click.option(
    "--select", help="The metric that chooses on validation; default: as in the last run."
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["rich", "csv", "md", "json"]),
    default="rich",
    show_default=True,
)
@click.option("--json", "kind", flag_value="json", help="The same as --format json.")
def command(folder: Path | None, select: str | None, kind: str) -> None:
    """Print the tables of a results FOLDER, by default the one written last under results/.

    Nothing is run: the tables are read from the files.
    """
    from recbench.metrics import parse_metric
    from recbench.report import views
    from recbench.results import Campaign

    campaign = Campaign.open(folder or newest())
    rows = list(campaign.rows().values())
    if not rows:
        raise DataError(f"{campaign.folder} holds no finished trials yet")
    chosen = parse_metric(select).text if select else campaign.select()
    show_views(views(rows, chosen), kind)


def newest() -> Path:
    """The results folder under results/ that was written to last."""
    logs = sorted(Path("results").glob("*/trials.jsonl"), key=lambda path: path.stat().st_mtime)
    if not logs:
        raise DataError(
            "there are no results under results/; say which FOLDER, or `recbench run` first"
        )
    return logs[-1].parent
