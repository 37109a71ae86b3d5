"""`recbench compare`."""

from pathlib import Path

import click

from recbench.cli.common import PATH, complete, say, words_of
from recbench.cli.output import format_options, show_views


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
@click.option(
    "-d", "--dataset", shell_complete=complete("datasets"), help="Where a folder holds several."
)
@click.option(
    "-k",
    "--metric",
    multiple=True,
    help="Only these: a test that was planned is corrected for no other; repeatable.",
)
@click.option("--part", type=click.Choice(["test", "valid"]), default="test", show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the resampling.")
@click.option("--resamples", type=click.IntRange(min=100), default=10_000, show_default=True)
@format_options
def command(
    a: str, b: str, results: Path | None, dataset: str | None, metric: tuple[str, ...], part: str,
    seed: int, resamples: int, kind: str,
) -> None:  # fmt: skip
    """Is A better than B? Paired tests on the per-user values of finished trials.

    A and B are models (then their selected trials are meant, seeds averaged), full texts such as
    "ease[l2=100]", or trial ids. Nothing is run again.

    For each metric: the difference, its 95 % bootstrap interval, the p of a permutation test,
    corrected by Holm's method for all rows of the table, the effect size (mean difference over
    its standard deviation), and on how many users A won, tied and lost. Asked for all users; for
    those with short and with long histories; and on test, of what was held out, for the popular
    items that have half of all interactions (head) and for the others (tail).

    \b
    recbench compare deql-l2 ease
    recbench compare deql-l2 ease -k ndcg@100
    """
    from recbench.campaign.folder import open_results
    from recbench.evaluate.metrics import metric_text
    from recbench.report.compare import compare_sides, find, view

    campaign = open_results(results, say)
    select = campaign.select(dataset)
    first, second = (find(campaign, name, select, part, dataset) for name in (a, b))
    metrics = [metric_text(text) for text in words_of(metric)]
    verdicts = compare_sides(campaign, first, second, seed, resamples, metrics)
    show_views([view(verdicts, first, second)], kind)
