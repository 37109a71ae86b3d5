"""Options that are not one word: which column is what, and which file is which part."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from recbench.data.interactions import PARTS
from recbench.errors import UsageError, unknown

ROLES = ("user", "item", "value", "time")
NEEDED = ("user", "item")


def columns_option(options: dict[str, object]) -> dict[str, str]:
    """Take `columns` out: for each role the name of a column, or its position from 0."""
    given = options.pop("columns", None) or {}
    if not isinstance(given, Mapping):
        raise UsageError(f"option 'columns' needs pairs such as user: name, not '{given}'")
    for role in given:
        if role not in ROLES:
            raise unknown("column role", str(role), ROLES)
    return {role: str(column) for role, column in given.items() if column is not None}


def parts_option(options: dict[str, object], paths: Sequence[Path]) -> list[int] | list[None]:
    """Take `parts` out: for each path the code of the part it holds, or nothing for all."""
    given = options.pop("parts", None)
    if given is None:
        return [None] * len(paths)
    names = given.split(",") if isinstance(given, str) else given
    if not isinstance(names, Sequence) or len(names) != len(paths):
        raise UsageError(f"option 'parts' needs one name for each of the {len(paths)} files")
    for name in names:
        if name not in PARTS:
            raise unknown("part", str(name), PARTS)
    return [PARTS.index(name) for name in names]


def listed(paths: Sequence[Path]) -> str:
    """Name the files in an error about all of them."""
    return ", ".join(map(str, paths[:4])) + (" and others" if len(paths) > 4 else "")
