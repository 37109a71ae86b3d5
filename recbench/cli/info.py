"""`recbench info`."""

import re
from typing import Any

import click

from recbench.cli.common import (
    complete,
    console,
    import_numpy_alone,
    json_option,
    plugin_option,
    print_json,
    registry,
    say,
)
from recbench.errors import UsageError, unknown

KINDS = ("models", "losses", "metrics", "splits", "readers")
MOST_LINES = 12
WIDE = 100
"""Columns that a table of parameters needs, or its cells are cut; on less it is a list."""


@click.command()
@click.argument("name", shell_complete=complete("datasets", *KINDS))
@click.option("--bibtex", is_flag=True, help="Print BibTeX entries of where it comes from.")
@json_option
@plugin_option
def command(name: str, bibtex: bool, as_json: bool) -> None:
    """Explain NAME: a dataset, model, loss, metric, split or reader.

    \b
    recbench info deql-l2         its parameters, published values, where --trials searches
    recbench info als[loss=rg2]   those of the loss that it holds, too
    recbench info mine-plus       the formula of a loss, and its paper
    recbench info gowalla         counts, licence, source, split
    recbench info ndcg            the definition
    """
    import_numpy_alone()
    described = _find(re.sub(r"@[^\]]*$", "", name))
    if bibtex:
        from recbench.report.cite import of_name

        click.echo(of_name(name))
    elif as_json:
        print_json(described)
    else:
        for sheet in described:
            _print(sheet)


def _find(name: str) -> list[dict[str, Any]]:
    """Describe everything of that name: a metric and a model may share one."""
    from recbench.data.catalog import load_catalog

    bare = name.partition("[")[0]
    kinds = [kind for kind in KINDS if bare in registry(kind).names()]
    for doubt in (doubt for kind in kinds for doubt in registry(kind).doubts()):
        say(doubt)
    try:
        catalog = load_catalog()
    except UsageError:  # what is known otherwise does not need the user's own catalogue
        if not kinds:
            raise
        catalog = load_catalog(None)
    sheets = [_dataset(catalog[name])] if name in catalog else []
    # A loss is also the model of its name, with sweeps: that tells it all.
    sheets += [_plugin(k, name) for k in kinds if not (k == "losses" and "models" in kinds)]
    for sheet in sheets:
        _add_published(sheet)
    if not sheets:
        names = [*catalog, *(known for kind in KINDS for known in registry(kind).names())]
        raise unknown("name", name, names)
    return sheets


def _add_published(sheet: dict[str, Any]) -> None:
    """Add the numbers in papers' tables that concern a model or a dataset."""
    from recbench.published.rows import load

    field = {"model": "our_model", "dataset": "our_dataset"}.get(sheet["kind"], "metric")
    rows = [row for row in load() if getattr(row, field) == sheet["name"]]
    if rows:
        sheet["published"] = [
            f"{row.source}: {row.dataset} {row.protocol} {row.model} {row.metric} {row.value:g}"
            + (f", ours {row.ours:.4f} at {row.parameters}" if row.ours is not None else "")
            for row in rows
        ]


def _plugin(kind: str, text: str) -> dict[str, Any]:
    import dataclasses
    import inspect

    from recbench.campaign.search.space import usual_dimensions
    from recbench.environment import to_install, version
    from recbench.params import classes_within, format_value, params_within
    from recbench.registry import parse_described

    names = registry(kind)
    thing, settings = parse_described(text, names)
    sheet: dict[str, Any] = {
        "name": thing.name, "kind": names.kind, "text": inspect.cleandoc(thing.__doc__ or ""),
        "from": names.source(thing.name),
    }  # fmt: skip
    if getattr(thing, "cite", ""):
        sheet["cite"] = thing.cite
    if getattr(thing, "extra", ""):
        there = version(thing.extra)
        sheet["needs"] = f"{thing.extra}, {there or f'which is missing: {to_install(thing.extra)}'}"
    if isinstance(thing, type) and dataclasses.is_dataclass(thing):
        sheet |= _minimised([*classes_within(thing, settings)])
        searched = usual_dimensions(thing, settings)
        sheet["parameters"] = [
            {
                "name": spec.name, "default": format_value(spec.default), "range": spec.range,
                "scale": "log" if spec.log else "linear",
                "grid": [format_value(value) for value in spec.grid],
                "searched": searched[spec.name].text.split(",") if spec.name in searched else [],
                "help": spec.help,
            }
            for spec in params_within(thing, settings).values()
        ]  # fmt: skip
    return sheet


def _minimised(parts: list[Any]) -> dict[str, str]:
    """The formula of a loss, or of the loss among the parts of a model, and all papers."""
    facts: dict[str, str] = {}
    for part in parts:
        if getattr(part, "formula", ""):
            if part is not parts[0]:
                facts["loss"] = part.name
            facts |= {"formula": part.formula, "where": part.symbols}
            cites = [getattr(cited, "cite", "") for cited in (parts[0], part)]
            facts["cite"] = "\n".join(dict.fromkeys(filter(None, cites)))
    return facts


def _dataset(entry: Any) -> dict[str, Any]:
    from recbench.data.open import Access, state_of

    expected = entry.expected
    sheet: dict[str, Any] = {
        "name": entry.name, "kind": "dataset", "text": entry.title,
        "here": state_of(entry, Access().home), "licence": entry.licence,
    }  # fmt: skip
    if expected is not None:
        sheet["counts"] = (
            f"{expected.users:,} users x {expected.items:,} items, "
            f"{expected.interactions:,} interactions"
            + ("" if expected.verified else " (expected, unverified)")
        )
    sheet |= {
        "split": entry.split, "preparation": entry.recipe.text, "reader": entry.reader,
        "files": [_file(file) for file in entry.files], "page": entry.page,
        "terms": entry.terms.text, "by hand": list(entry.terms.steps), "notes": entry.notes,
        "cite": entry.cite, "published tables": list(entry.published), "revision": entry.revision,
    }  # fmt: skip
    return {key: value for key, value in sheet.items() if key == "text" or value not in ("", [])}


def _file(file: Any) -> str:
    size = f", {file.size / 1e6:,.1f} MB" if file.size else ""
    pin = f", {file.pinned[0]} {file.pinned[1][:12]}…" if file.pinned else ""
    return f"{file.name}{size}{pin}: {file.urls[0] if file.urls else file.path or 'by hand'}"


def _print(sheet: dict[str, Any]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    out = console()
    out.print(f"[bold]{sheet['name']}[/] ({sheet['kind']})\n{escape(sheet['text'])}\n")
    facts = Table(box=None, show_header=False, pad_edge=False)
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in sheet.items():
        if name not in ("name", "kind", "text", "parameters"):
            lines = value if isinstance(value, list) else [value]
            if len(lines) > MOST_LINES:
                lines = [*lines[:MOST_LINES], f"… and {len(lines) - MOST_LINES} more (--json)"]
            facts.add_row(name, escape("\n".join(map(str, lines)).rstrip()))
    out.print(facts)
    parameters = [
        {name: ", ".join(v) if isinstance(v, list) else v for name, v in spec.items()}
        for spec in sheet.get("parameters", [])
    ]
    if parameters and out.width < WIDE:
        table = Table(box=SIMPLE_HEAD)
        table.add_column("name", no_wrap=True)
        table.add_column("default, range, scale, what is tried, and help", overflow="fold")
        for spec in parameters:
            table.add_row(escape(spec["name"]), escape(_in_words(spec)))
        out.print(table)
    elif parameters:
        table = Table(box=SIMPLE_HEAD)
        for name in parameters[0]:
            table.add_column(name, no_wrap=name == "name", overflow="fold")
        for spec in parameters:
            table.add_row(*(escape(cell) or "–" for cell in spec.values()))
        out.print(table)


def _in_words(spec: dict[str, str]) -> str:
    """A parameter without the columns of a table."""
    facts = [spec["default"], spec["range"], *(["log"] if spec["scale"] == "log" else [])]
    facts += [f"{word} {spec[word]}" for word in ("grid", "searched") if spec[word]]
    return "; ".join(facts) + "\n" + spec["help"]
