"""`recbench show`."""

from pathlib import Path

import click

from recbench.cli.common import complete, say, words_of
from recbench.cli.output import format_options, show_views
from recbench.errors import DataError, unknown


@click.command()
@click.argument(
    "folder", type=click.Path(path_type=Path), required=False, shell_complete=complete("runs")
)
@click.option(
    "-k",
    "--metric",
    "--metrics",
    "metric",
    multiple=True,
    help="Only these, such as ndcg@100; repeatable. Default: every one measured.",
)
@click.option(
    "--sort", metavar="METRIC", help="The metric to rank by; default: the one that selected."
)
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="Only the best N models.")
@click.option(
    "-d",
    "--dataset",
    shell_complete=complete("datasets"),
    help="Only this one, where a folder holds several.",
)
@click.option(
    "--part",
    type=click.Choice(["test", "valid"]),
    help="Default: test, or valid while there are no test results.",
)
@click.option("--trials", is_flag=True, help="List trials, one line each, as `recbench run` does.")
@click.option(
    "--select", help="The metric that chooses on validation; default: as in the last run."
)
@format_options
def command(
    folder: Path | None, metric: tuple[str, ...], sort: str | None, top: int | None,
    dataset: str | None, part: str | None, trials: bool, select: str | None, kind: str,
) -> None:  # fmt: skip
    """Rank the models of a results FOLDER, by default the one written last under results/.

    One line per model: its selected trial, or the mean ± standard deviation over seeds. The best
    value of a metric is bold, the second underlined. Letters after a value name the models that
    it is significantly better than: a paired permutation test over users for every two models,
    with Holm's correction over all pairs. Nothing is run: everything is read from the files.

    \b
    recbench show --sort recall-capped@20 --top 10
    recbench show --format latex > table.tex
    """
    from recbench.campaign.folder import open_results
    from recbench.campaign.row import metric_names
    from recbench.evaluate.metrics import parse_metric
    from recbench.report.leaderboard import Wanted, leaderboard_views, measured_part, rows_on
    from recbench.report.trials import views

    campaign = open_results(folder, say)
    chosen = parse_metric(select).text if select else ""
    if trials:
        rows = rows_on(campaign, dataset)
        if chosen and chosen not in metric_names(rows):
            raise unknown("metric in these results", chosen, metric_names(rows))
        show_views(views(rows, chosen or campaign.select(dataset)), kind)
        return
    wanted = Wanted(
        chosen, part or measured_part(campaign), sort=parse_metric(sort).text if sort else "",
        top=top, metrics=[parse_metric(text).text for text in words_of(metric)],
        dataset=dataset,
    )  # fmt: skip
    tables = leaderboard_views(campaign, wanted)
    if not tables:
        raise DataError(f"{campaign.folder} has no finished trials to rank; --trials lists all")
    show_views(tables, kind)
