"""`recbench show`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from recbench.cli.common import complete, say, words_of
from recbench.cli.output import format_options, show_views
from recbench.errors import DataError, UsageError, unknown

if TYPE_CHECKING:
    from recbench.report.tables import View


@click.command()
@click.argument(
    "folders", metavar="[FOLDER]...", type=click.Path(path_type=Path), nargs=-1,
    shell_complete=complete("runs"),
)  # fmt: skip
@click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    metavar="NAME[=LABEL]",
    help="Side by side: only these models, in this order, under these labels; repeatable.",
)
@click.option(
    "-k",
    "--metric",
    "--metrics",
    "metric",
    multiple=True,
    help="Only these, such as ndcg@100; repeatable. Default: every one measured. Side by side "
    "they may have labels, as in recall@20=Recall@20.",
)
@click.option(
    "--sort", metavar="METRIC", help="The metric to rank by; default: the one that selected."
)
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="Only the best N models.")
@click.option(
    "-d",
    "--dataset",
    "datasets",
    multiple=True,
    metavar="NAME[=LABEL]",
    shell_complete=complete("datasets"),
    help="Only this one, where a folder holds several; side by side repeatable, with labels.",
)
@click.option(
    "--side-by-side",
    is_flag=True,
    help="One line per model, all datasets in one table; so for several folders.",
)
@click.option("--caption", default="", help="Side by side: what stands above the table.")
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
    folders: tuple[Path, ...], models: tuple[str, ...], metric: tuple[str, ...], sort: str | None,
    top: int | None, datasets: tuple[str, ...], side_by_side: bool, caption: str,
    part: str | None, trials: bool, select: str | None, kind: str,
) -> None:  # fmt: skip
    """Rank the models of a results FOLDER, by default the one written last under results/.

    One line per model: its selected trial, or the mean ± standard deviation over seeds. The best
    value of a metric is bold, the second underlined. Letters after a value name the models that
    it is significantly better than: a paired permutation test over users for every two models,
    with Holm's correction over all pairs. Nothing is run: everything is read from the files.

    Several folders, or --side-by-side, make one table as papers print it: a line per model, with
    the datasets side by side.

    \b
    recbench show --sort recall-capped@20 --top 10
    recbench show --format latex > table.tex
    recbench show results/a results/b -m ease=EASE -m ials=iALS -k ndcg@20=NDCG@20 --format latex
    """
    from recbench.campaign.budget import unbegun
    from recbench.campaign.folder import open_results
    from recbench.campaign.row import metric_names
    from recbench.evaluate.metrics import metric_text
    from recbench.report.leaderboard import Wanted, leaderboard_views, measured_part, rows_on
    from recbench.report.trials import views

    if side_by_side or len(folders) > 1:
        for flag, alone in (("--trials", trials), ("--sort", sort), ("--select", select)):
            if alone:
                raise UsageError(
                    f"{flag} is for one folder, not for datasets side by side: leave it out"
                )
        show_views([_side_by_side(folders, models, metric, datasets, part, caption, top)], kind)
        return
    for flag, given in (("--model", models), ("--caption", caption), ("-d again", datasets[1:])):
        if given:
            raise UsageError(f"{flag} is for datasets side by side: give --side-by-side")
    campaign = open_results(folders[0] if folders else None, say)
    dataset = datasets[0] if datasets else None
    chosen = metric_text(select) if select else ""
    if trials:
        rows = rows_on(campaign, dataset)
        if chosen and chosen not in metric_names(rows):
            raise unknown("metric in these results", chosen, metric_names(rows))
        left = unbegun(campaign.manifest()["runs"], rows)
        show_views(views(rows, chosen or campaign.select(dataset), left), kind)
        return
    wanted = Wanted(
        chosen, part or measured_part(campaign), sort=metric_text(sort) if sort else "",
        top=top, metrics=[metric_text(text) for text in words_of(metric)],
        dataset=dataset,
    )  # fmt: skip
    tables = leaderboard_views(campaign, wanted)
    if not tables:
        raise DataError(f"{campaign.folder} has no finished trials to rank; --trials lists all")
    show_views(tables, kind)


def _side_by_side(
    folders: tuple[Path, ...], models: tuple[str, ...], metrics: tuple[str, ...],
    datasets: tuple[str, ...], part: str | None, caption: str, top: int | None,
) -> "View":  # fmt: skip
    """One table of all folders."""
    from recbench.campaign.folder import open_results
    from recbench.report.side_by_side import layout, side_by_side

    campaigns = [open_results(folder, say) for folder in folders] or [open_results(None, say)]
    wanted = layout(models, words_of(metrics), datasets, part, caption)
    view = side_by_side(campaigns, wanted)
    view.frame = view.frame.head(top) if top else view.frame
    return view
