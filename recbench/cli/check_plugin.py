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

    instance = build(model, MODELS)
    results = list(check_model(instance))
    for result in results:
        say(f"{'FAIL' if result.problem else 'ok  '}  {result.check}")
        if result.problem:
            say(f"      {result.problem}")
    failed = sum(bool(result.problem) for result in results)
    if failed:
        raise RecbenchError(f"{instance.text} failed {failed} of {len(results)} checks")
    click.echo(f"{instance.text} passed {len(results)} checks")
