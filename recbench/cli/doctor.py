"""`recbench doctor`."""

from typing import Any

import click

from recbench.cli.common import console, json_option, print_json


@click.command()
@click.option("--items", type=click.IntRange(min=1), default=40_981, show_default=True,
              help="Items to estimate an EASE fit for, or users where they are fewer.")  # fmt: skip
@json_option
def command(items: int, as_json: bool) -> None:
    """Show versions, BLAS, threads and speed of this machine, and what holds it back.

    The last lines say what a linear-autoencoder fit of so many items will take and need here.
    """
    from recbench.doctor import examine

    report = examine(items)
    if as_json:
        print_json(report)
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in report["facts"].items():
        table.add_row(name, escape(_words(value)))
    out = console()
    out.print(table)
    for line in report["advice"]:
        out.print(f"[yellow]![/] {escape(line)}")


def _words(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
