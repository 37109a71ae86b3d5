"""`recbench list`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recbench.cli.common import (
    console,
    import_numpy_alone,
    json_option,
    plugin_option,
    print_json,
    registry,
    say,
)
from recbench.errors import UsageError, without_codes

if TYPE_CHECKING:
    from rich.table import Table

KINDS = ("datasets", "models", "losses", "metrics", "splits", "readers", "runs")

COUNTS = ("users", "items", "interactions")
SHORT = 10
LONG = "licence"
"""A sentence: left out of a screen that has no room for it, `recbench info` has it."""


@click.command()
@click.argument("kind", type=click.Choice(KINDS))
@json_option
@plugin_option
def command(kind: str, as_json: bool) -> None:
    """List everything of one KIND: datasets, models, losses, metrics, splits, readers, runs."""
    import_numpy_alone()
    lines = {"datasets": _datasets, "runs": _runs}.get(kind, lambda: _plugins(kind))()
    if as_json:
        print_json(lines)
        return
    out, lines = console(), [_stacked(line) for line in lines]
    table = _table(kind, lines)
    if _least(out, table) > out.width:
        table = _table(kind, [{n: v for n, v in line.items() if n != LONG} for line in lines])
        table.pad_edge, table.show_edge, table.collapse_padding = False, False, True
    out.print(table, crop=False)


def _least(out: Any, table: "Table") -> int:
    """The columns of a screen that a table cannot do without."""
    least: int = out.measure(table, options=out.options.update(width=10_000)).minimum
    return least


def _table(kind: str, lines: Sequence[dict[str, Any]]) -> "Table":
    """Numbers and names are in one piece, other words if they are short."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD)
    for name in lines[0] if lines else [kind]:
        number = bool(lines) and isinstance(lines[0][name], int)
        whole, texts = number or name in ("name", "folder"), [_cell(line[name]) for line in lines]
        words = texts if whole else [word[:SHORT] for text in texts for word in text.split()]
        table.add_column(
            name, justify="right" if number else "left", no_wrap=whole, overflow="fold",
            min_width=max(map(len, [name, *words])),
        )  # fmt: skip
    for line in lines:
        table.add_row(*(escape(_cell(value)) for value in line.values()))
    return table


def _stacked(line: dict[str, Any]) -> dict[str, Any]:
    """The same, with a formula on a line of its own below the sentence that it goes with."""
    stacked = {name: value for name, value in line.items() if name != "formula"}
    if line.get("formula"):
        stacked["what it is"] += f"\n{line['formula']}"
    return stacked


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else without_codes(str(value))


def _plugins(kind: str) -> list[dict[str, Any]]:
    """Models, metrics, splits and readers: name, one sentence, where it comes from.

    Losses have their formula as well.
    """
    plugins = registry(kind)
    for doubt in plugins.doubts():
        say(doubt)
    lines = []
    for name in plugins.names():
        try:
            thing, what = plugins.get(name), summary(plugins.get(name))
        except UsageError as error:  # somebody else's, which costs no more than its own line
            thing, what = None, str(error)
        formula = {"formula": getattr(thing, "formula", "")} if kind == "losses" else {}
        lines.append({"name": name, "what it is": what, **formula, "from": plugins.source(name)})
    return lines


def summary(thing: Any) -> str:
    """The first sentence of a docstring."""
    return (thing.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")


def _datasets() -> list[dict[str, Any]]:
    from recbench.data.catalog import load_catalog
    from recbench.data.open import Access, state_of

    home, catalog, lines = Access().home, load_catalog(), []
    for name in catalog:
        try:
            entry = catalog[name]
        except UsageError as error:  # of the user's own: the others are listed all the same
            say(str(error))
            unknown = dict.fromkeys([*COUNTS, "split"])
            lines.append({"name": name, **unknown, "here": "not usable", "licence": None})
            continue
        lines.append({
            "name": entry.name,
            **{name: getattr(entry.expected, name, None) for name in COUNTS},
            "split": entry.split,
            "here": state_of(entry, home), "licence": entry.licence,
        })  # fmt: skip
    return lines


def _runs() -> list[dict[str, Any]]:
    from recbench.campaign.folder import Campaign

    lines = []
    for log in sorted(Path("results").glob("*/trials.jsonl")):
        campaign = Campaign(log.parent)
        rows, runs = campaign.rows(), campaign.manifest()["runs"]
        lines.append({
            "folder": str(campaign.folder), "trials": len({trial for trial, _ in rows}),
            "models": ", ".join(sorted({row.model for row in rows.values()})),
            "written": runs[-1]["written"] if runs else None,
        })  # fmt: skip
    return lines
