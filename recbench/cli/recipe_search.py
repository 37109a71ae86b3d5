"""`recbench recipe-search`."""

from pathlib import Path
from typing import Any

import click

from recbench.cli.common import PATH, Bars, byte_bars, complete, json_option, print_json, say
from recbench.cli.output import show_views
from recbench.errors import UsageError


@click.command(name="recipe-search")
@click.argument("name", shell_complete=complete("datasets"))
@click.option("--target", required=True, metavar="USERS,ITEMS,INTERACTIONS",
              help="The counts a paper prints, such as 29243,13681,677956.")  # fmt: skip
@click.option("--from", "source", type=PATH, help="A file or folder you downloaded by hand.")
@click.option("--users", metavar="LOW:HIGH", default="2:30", show_default=True,
              help="Minimal counts of users to try, beside none.")  # fmt: skip
@click.option("--items", metavar="LOW:HIGH", default="2:30", show_default=True,
              help="Minimal counts of items to try, beside none.")  # fmt: skip
@json_option
def command(
    name: str, target: str, source: Path | None, users: str, items: str, as_json: bool
) -> None:
    """Search for the preparation of dataset NAME that gives published counts.

    Tries thresholds on the values, with and without removing repeated pairs, minimal counts of
    users and items, to a fixpoint or in one pass in either order; prints every recipe that hits
    the target, or else the nearest ones with their counts.

    \b
    recbench recipe-search gowalla-snap --target 29243,13681,677956
    """
    from recbench.data.open import Access, entry_of, read_raw
    from recbench.data.recipe_search import Grid, search_recipes

    wanted = _triple(target)
    grid = Grid(users=_minima(users, "--users"), items=_minima(items, "--items"))
    with byte_bars() as bytes_done:
        access = Access(fetching={"source": source, "progress": bytes_done}, announce=say)
        rows = read_raw(entry_of(name), access)
    with Bars() as bars:
        matches = search_recipes(
            rows, wanted, grid, progress=lambda done, total: bars("recipes", done, total)
        )
    lines = [_line(match) for match in matches]
    if as_json:
        print_json(lines)
    else:
        show_views([_view(lines, hit=matches[0].distance == 0)], "rich")


def _line(match: Any) -> dict[str, Any]:
    return {
        "recipe": match.recipe.text, "users": match.users, "items": match.items,
        "interactions": match.interactions, "off by": round(match.distance, 6),
    }  # fmt: skip


def _view(lines: list[dict[str, Any]], *, hit: bool) -> Any:
    import pandas as pd

    from recbench.report.tables import View

    title = "Recipes that give exactly these counts" if hit else "No recipe hits; the nearest ones"
    return View(title, pd.DataFrame(lines))


def _triple(text: str) -> tuple[int, int, int]:
    try:
        users, items, interactions = (int(word) for word in text.replace("_", "").split(","))
    except ValueError:
        raise UsageError(
            f"--target takes USERS,ITEMS,INTERACTIONS, such as 40,20,300, not '{text}'"
        ) from None
    if min(users, items, interactions) < 1:
        raise UsageError(f"--target must be positive counts, not '{text}'")
    return users, items, interactions


def _minima(text: str, option: str) -> range | tuple[int, ...]:
    try:
        low, high = (int(word) for word in text.split(":"))
    except ValueError:
        raise UsageError(f"{option} takes LOW:HIGH, such as 2:30, not '{text}'") from None
    if not 0 <= low <= high:
        raise UsageError(f"{option} must rise from 0 or more, not '{text}'")
    return (0, *range(max(low, 1), high + 1))
