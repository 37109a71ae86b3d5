"""How tables reach standard output, in the format that is asked for."""

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from recbench.cli.common import console, writes_unicode

if TYPE_CHECKING:
    from recbench.report.tables import View

FORMATS = click.Choice(["rich", "csv", "md", "latex", "json"])


def format_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the choice of how its tables are printed, as `kind`."""
    same = click.option("--json", "kind", flag_value="json", help="The same as --format json.")
    choice = click.option("--format", "kind", type=FORMATS, default="rich", show_default=True)
    return choice(same(function))


def show_views(views: "Sequence[View]", kind: str) -> None:
    """Print tables to standard output."""
    from recbench.report.formats import text
    from recbench.report.tables import rich_view

    if kind == "rich":
        out = console()
        for view in views:
            out.print(rich_view(view, out), crop=False)  # wrapped, where a screen is too narrow
    else:
        if kind == "latex":
            click.echo(f"% {shlex.join(['recbench', *sys.argv[1:]])}")
        printed = text(views, kind)
        if kind == "json" and not writes_unicode():
            printed = json.dumps(json.loads(printed), indent=1)
        click.echo(printed)
