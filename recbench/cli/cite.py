"""`recbench cite`."""

from pathlib import Path

import click

from recbench.cli.common import PATH, complete, plugin_option, say


@click.command()
@click.argument("folder", type=PATH, required=False, shell_complete=complete("runs"))
@plugin_option
def command(folder: Path | None) -> None:
    """Print BibTeX entries of all that a results FOLDER rests on (default: the newest).

    recbench, the datasets, the splits, the metrics and every model in it with its loss, each once.
    `recbench info NAME --bibtex` prints those of one of them.

    \b
    recbench cite results/debian-strong > paper.bib
    """
    from recbench.campaign.folder import open_results
    from recbench.report.cite import of_campaign

    text, unknown = of_campaign(open_results(folder, say))
    click.echo(text)
    for name in unknown:
        say(f"no entry for the dataset {name}: where its data come from is for you to cite")
