"""`recbench report`."""

from pathlib import Path

import click

from recbench.cli.common import PATH, complete, say
from recbench.errors import DataError


@click.command()
@click.argument("folder", type=PATH, required=False, shell_complete=complete("runs"))
@click.option("-o", "--output", type=PATH, help="The file; default FOLDER/report.html.")
@click.option(
    "--figures", type=PATH, metavar="DIR", help="Also write every chart there as an SVG file."
)
@click.option("--pdf", is_flag=True, help="With --figures: as PDF files too (extra `figures`).")
@click.option("--select", help="The metric to rank by; default: as in the last run.")
def command(
    folder: Path | None, output: Path | None, figures: Path | None, pdf: bool, select: str | None
) -> None:
    """Write a results FOLDER (default: the newest) as one HTML file that needs no network.

    The ranking with significance letters, sortable tables of trials, quality against time and
    memory, the landscape of every tuned model, convergence where traces were kept, and how the
    numbers were made; for dark and light screens, phones and print.

    \b
    recbench report --figures paper/figures --pdf
    """
    from recbench.campaign.folder import open_results
    from recbench.evaluate.metrics import metric_text
    from recbench.files import atomic_path
    from recbench.report.html.figures import write_figures
    from recbench.report.html.page import page

    if pdf and figures is None:
        raise click.UsageError("--pdf needs --figures DIR")
    campaign = open_results(folder, say)
    metric = metric_text(select) if select else ""
    path = output or campaign.folder / "report.html"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as temporary:
            temporary.write_text(page(campaign, metric), encoding="utf-8")
        click.echo(path)
        if figures is not None:
            for drawing in write_figures(campaign, metric, figures, ("svg", "pdf")[: 1 + pdf]):
                click.echo(drawing)
    except OSError as error:
        raise DataError(f"{error.filename or path} cannot be written ({error.strerror})") from error
    say("open it in a browser")
