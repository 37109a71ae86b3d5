"""`recbench check-plugin`."""

import click

from recbench.cli.common import complete, plugin_option, say
from recbench.errors import RecbenchError


@click.command(name="check-plugin")
@click.argument("model", shell_complete=complete("models"))
@plugin_option
def command(model: str) -> None:
    """Put MODEL through the tests that every model must pass.

    \b
    recbench check-plugin --plugin mymodel.py mymodel
    recbench check-plugin "ease[l2=10]"
    """
    from recbench.models.contract import check_model
    from recbench.registry import MODELS, build

    made = build(model, MODELS)
    outcomes = list(check_model(made))
    for outcome in outcomes:
        say(f"{'FAIL' if outcome.problem else 'ok  '}  {outcome.check}")
        if outcome.problem:
            say(f"      {outcome.problem}")
    failed = sum(bool(outcome.problem) for outcome in outcomes)
    if failed:
        raise RecbenchError(f"{made.text} failed {failed} of {len(outcomes)} checks")
    click.echo(f"{made.text} passed {len(outcomes)} checks")
