"""`recbench export`."""

from pathlib import Path

import click

from recbench.cli.common import PATH, complete, say


@click.command()
@click.argument("name", shell_complete=complete("datasets"))
@click.option("--split", help="A name of `recbench list splits`; default: the dataset's own.")
@click.option("--to", "form", type=click.Choice(["csv", "lightgcn", "recbole"]), default="csv",
              show_default=True, help="Which files to write.")  # fmt: skip
@click.option("-o", "--output", type=PATH, help="Folder to write to; default export/NAME.")
def command(name: str, split: str | None, form: str, output: Path | None) -> None:
    """Write the split of a dataset as files that other tools read.

    \b
    csv       train.csv, valid.csv, test.csv with original ids
    lightgcn  train.txt, … in lines `user item item`, and the lists of ids
    recbole   NAME.train.inter, …: atomic files for `benchmark_filename`

    For users who are not in train, what they are shown is in valid_history and test_history.
    """
    from recbench.campaign.search.grammar import split_from
    from recbench.data.open import Access, default_split, open_dataset
    from recbench.splits.export import export

    rule = split_from(split or default_split(name))
    data = open_dataset(name, Access(announce=say))
    for path in export(data, rule.apply(data), form, output or Path("export") / name):
        click.echo(path)
