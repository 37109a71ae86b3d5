"""`recbench check-plugin`."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recbench.brackets import name_in
from recbench.cli.common import PATH, complete, plugin_option, registry, say
from recbench.errors import RecbenchError, UsageError, counted, unknown

if TYPE_CHECKING:
    from recbench.registry import CheckResult

KINDS = ("models", "losses", "metrics", "splits", "readers")

Checks = Callable[[], "Iterator[CheckResult]"]


@click.command(name="check-plugin")
@click.argument("name", shell_complete=complete(*KINDS))
@click.option(
    "--data", type=PATH, multiple=True,
    help="Of a reader: a file in the layout that it reads; repeatable.",
)  # fmt: skip
@plugin_option
def command(name: str, data: tuple[Path, ...]) -> None:
    """Put NAME through what every model, loss, metric, split or reader must do.

    \b
    recbench check-plugin --plugin mymodel.py mymodel
    recbench check-plugin "ease[l2=10]"
    recbench check-plugin --plugin mymetric.py "mymetric[p=0.5]"
    recbench check-plugin --plugin baskets.py baskets --data baskets.dat
    """
    described = re.sub(r"@\d*$", "", name)
    bare = name_in(described)
    kinds = [kind for kind in KINDS if bare in registry(kind).names()]
    if not kinds:
        raise unknown("plugin", bare, {n for kind in KINDS for n in registry(kind).names()})
    if data and "readers" not in kinds:
        raise UsageError(f"--data is for readers, and '{bare}' is none: leave it out")
    for path in data:
        if not path.is_file():
            raise UsageError(f"--data {path}: there is no such file; give one that {bare} can read")
    # A model and its loss have one name: settings say which of them is meant.
    for kind in [kind for kind in kinds if _takes(kind, described)] or kinds:
        _check(registry(kind), described, _checks(kind, described, data))


def _takes(kind: str, text: str) -> bool:
    """Whether what has this name among things of one kind takes these settings."""
    from recbench.registry import build

    if kind not in ("models", "losses", "splits"):
        return True
    try:
        build(text, registry(kind))
    except UsageError:
        return False
    return True


def _check(names: Any, text: str, checks: Checks) -> None:
    """Print what came of every check; one that fails is an error after the last."""
    results = list(checks())
    for result in results:
        say(f"{'FAIL' if result.problem else 'ok  '}  {result.check}")
        if result.problem:
            say(f"      {result.problem}")
    failed = sum(bool(result.problem) for result in results)
    if failed:
        raise RecbenchError(f"the {names.kind} {text} failed {failed} of {len(results)} checks")
    click.echo(f"the {names.kind} {text} passed {counted(len(results), 'check')}")


def _checks(kind: str, text: str, data: tuple[Path, ...]) -> Checks:
    """The checks of one kind, on the thing of this text."""
    from recbench.data.readers.contract import check_reader
    from recbench.evaluate.contract import check_metric
    from recbench.evaluate.metrics import measure_of
    from recbench.models.contract import check_model
    from recbench.models.loss_contract import check_loss
    from recbench.registry import build, parse_described
    from recbench.splits.contract import check_split

    names = registry(kind)
    if kind == "metrics":
        return lambda: check_metric(measure_of(text))
    if kind == "readers":
        if not data:
            raise UsageError(f"the reader {text} needs something to read: give --data FILE")
        read, options = parse_described(text, names)
        return lambda: check_reader(read, data, options)
    of_kind: dict[str, Any] = {"models": check_model, "losses": check_loss, "splits": check_split}
    return lambda: of_kind[kind](build(text, names))
