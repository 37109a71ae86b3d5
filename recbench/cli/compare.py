"""`recbench compare`."""

from pathlib import Path

import click

from recbench.cli.common import complete
from recbench.cli.run import show_views
from recbench.cli.run_options import FORMATS, PATH
from recbench.cli.show import newest


@click.command()
@click.argument("a", shell_complete=complete("models"))
@click.argument("b", shell_complete=complete("models"))
@click.option(
    "-o",
    "--results",
    type=PATH,
    shell_complete=complete("runs"),
    help="Results folder; default: the one written last under results/.",
)
@click.option("--part", type=click.Choice(["test", "valid"]), default="test", show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the resampling.")
@click.option("--resamples", type=click.IntRange(min=100), default=10_000, show_default=True)
@click.option("--format", "kind", type=FORMATS, default="rich", show_default=True)
@click.option("--json", "kind", flag_value="json", help="The same as --format json.")
def command(
    a: str, b: str, results: Path | None, part: str, seed: int, resamples: int, kind: str
) -> None:
    """Is A better than B? Paired tests on the per-user values of two finished trials.

    A and B are models (then their selected trials are meant), full texts such as
    "ease[l2=100]", or trial ids. Nothing is run again.

    For each metric, for all users and for those with short and long histories: the difference,
    its 95 % bootstrap interval, the p of a permutation test, corrected by Holm's method for all
    rows of the table, the effect size, and on how many users A won, tied and lost.

    \b
    recbench compare deql-l2 ease
    """
    from recbench.compare import compare, find, view
    from recbench.results import Campaign

    campaign = Campaign.open(results or newest())
    select = campaign.select()
    first, second = (find(campaign, name, select, part) for name in (a, b))
    verdicts = compare(campaign.per_user(first), campaign.per_user(second), seed, resamples)
    show_views([view(verdicts, first, second, part)], kind)
