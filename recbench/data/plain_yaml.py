"""YAML of people, who may be strangers: read within bounds, and never as anything but plain data.

A file of a few bytes can nest a hundred thousand lists, or name a list that holds itself ten times
over, ten times over. So the events of a file are looked at, one after the other, before anything is
made of it.
"""

import re
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

from recbench.fields import Misfit, writable

MAX_BYTES = 1 << 22
MAX_DEPTH = 40
MAX_NODES = 100_000
"""Values in all, those that an alias repeats included; recbench's own catalogue has 3,000."""

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class TooMuch(yaml.YAMLError):
    """More than any honest file has."""


def compose(path: Path) -> yaml.Node | None:
    """The nodes of a file; None if there are none. What cannot be read raises YAMLError."""
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise TooMuch(f"it is longer than {MAX_BYTES >> 20} MB")
    check(content)
    node: yaml.Node | None = yaml.compose(content, Loader=LOADER)
    return node


def construct(node: yaml.Node) -> Any:
    """Plain values: words, numbers, dates, lists and mappings."""
    try:
        return writable(SafeConstructor().construct_document(node))
    except Misfit as error:
        raise TooMuch(str(error)) from error
    except (ValueError, OverflowError) as error:  # a date or a number that there is not
        raise TooMuch(f"it has a value that is none: {str(error)[:80]}") from error


def check(content: bytes) -> None:
    """Refuse nesting, and aliases, without measure."""
    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = []
    """The anchor of each collection that is not closed, and the values that came before it."""
    nodes = 0
    for event in yaml.parse(content, Loader=LOADER):
        anchor = getattr(event, "anchor", None)
        if isinstance(event, yaml.AliasEvent):
            if any(name == anchor for name, _ in open_nodes):
                raise TooMuch(f"'{anchor}' is said to be inside itself")
            nodes += sizes.get(anchor or "", 1)
        elif isinstance(event, yaml.ScalarEvent):
            if CONTROL.search(event.value):
                raise TooMuch("it has characters that speak to a terminal")
            nodes += 1
            sizes |= {anchor: 1} if anchor else {}
        elif isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((anchor, nodes))
            nodes += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            name, before = open_nodes.pop()
            sizes |= {name: nodes - before} if name else {}
        if len(open_nodes) > MAX_DEPTH:
            raise TooMuch(f"it is nested more than {MAX_DEPTH} deep")
        if nodes > MAX_NODES:
            raise TooMuch(f"it has more than {MAX_NODES:,} values")
