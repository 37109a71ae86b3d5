"""`recbench export`."""

from pathlib import Path
from typing import Any

import click

from recbench.cli.common import PATH, complete, plugin_option, say
from recbench.cli.run_options import file_options, source_of
from recbench.errors import UsageError


@click.command()
@click.argument("dataset", metavar="[NAME]", required=False, shell_complete=complete("datasets"))
@file_options
@click.option("--split", help="A name of `recbench list splits`; default: the dataset's own.")
@click.option("--to", "form", type=click.Choice(["csv", "parquet", "lightgcn", "recbole"]),
              default="csv", show_default=True, help="Which files to write.")  # fmt: skip
@click.option("-o", "--output", type=PATH, help="Folder to write to; default export/NAME.")
@plugin_option
def command(split: str | None, form: str, output: Path | None, **options: Any) -> None:
    """Write the split of a dataset, or of your own file, as files that other tools read.

    \b
    csv       train.csv, valid.csv, test.csv with original ids
    parquet   train.parquet, … with numbers; row n of users.parquet is the id of user n
    lightgcn  train.txt, … in lines `user item item`, and the lists of ids
    recbole   NAME.train.inter, …: atomic files for `benchmark_filename`

    For users who are not in train, what they are shown is in valid_history and test_history.

    \b
    recbench export gowalla --to recbole
    recbench export --data my.csv --user u --item i --time t --split last
    """
    from recbench.campaign.search.grammar import split_from
    from recbench.data.open import Access, default_split, open_source
    from recbench.splits.export import export

    if (options["dataset"] is None) == (options["data"] is None):
        raise UsageError(
            "what? give the name of a dataset, as in recbench export debian, or your own file "
            "with --data"
        )
    source = source_of(options)
    rule = split_from(split or default_split(source))
    data = open_source(source, Access(announce=say))
    for path in export(data, rule.divide(data), form, output or Path("export") / data.name):
        click.echo(path)
