"""The commands as functions: DataFrames out, nothing printed.

    from recbench import api

    api.run(["ease", "edlae"], dataset="debian", grid={"l2": "10:1000:log3"})
    api.show()
    api.compare("edlae", "ease")

Words mean what they mean on the command line; errors are the same sentences, raised.

As there, rooms are imported when a function is called that needs them: importing this module takes
next to nothing.
"""

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from recbench.errors import DataError
from recbench.files import atomic_path
from recbench.registry import load_plugin

if TYPE_CHECKING:
    import pandas as pd

    from recbench.campaign.folder import Campaign
    from recbench.data.dataset import Dataset
    from recbench.data.open import Source

Grid = Mapping[str, str | Sequence[object]]


def fetch(name: str) -> "Dataset":
    """A dataset by name, downloaded, verified and prepared if it is not here yet."""
    from recbench.data.open import Access, open_dataset

    return open_dataset(name, Access())


def run(
    models: str | Sequence[str],
    dataset: "Source" = "debian",
    *,
    sets: Mapping[str, object] | None = None,
    grid: Grid | None = None,
    search: str | None = None,
    trials: int | None = None,
    time_limit: str | None = None,
    search_seed: int = 0,
    split: str | None = None,
    metrics: Sequence[str] = (),
    select: str | None = None,
    seeds: Sequence[int] = (0,),
    dtype: str = "float32",
    reveal_test: bool = False,
    validate: bool | None = None,
    output: Path | str | None = None,
    jobs: int | str = 1,
    executor: str = "local",
    scheduler: str | None = None,
    spread: bool = False,
    threads: int | None = None,
    device: str | Sequence[str] = "auto",
    scratch: Path | str | None = None,
    trace: bool = False,
    save: Path | str | None = None,
    save_lists: Path | str | None = None,
    force: bool = False,
    retry_failed: bool = False,
    dry_run: bool = False,
    plugins: Sequence[Path | str] = (),
) -> "pd.DataFrame":
    """Fit models, tune them on validation, measure the best on test; one line per trial and part.

    `grid` has values as typed after --grid, or as a list; `time_limit` is that of each model, as in
    "30m". Finished trials are not run again.
    With `validate=False` settings were chosen before, one of each model: only the test part is
    measured, by one fit on all that it may be fitted on. With `validate=True` a model of one
    setting is measured on validation also where that takes a fit of its own. With
    `dry_run` nothing is fitted: one line per fit that is left, with what is known of its memory
    and time.
    """
    from recbench.campaign.estimate import as_frame, estimates
    from recbench.campaign.keep import Keep
    from recbench.campaign.plan import parts_for
    from recbench.campaign.request import Request

    names, files = [models] if isinstance(models, str) else list(models), [*map(Path, plugins)]
    for file in files:
        load_plugin(file)
    parts = parts_for(validate=validate is not False, reveal_test=reveal_test)
    request = Request(
        data=dataset, models=names,
        sets=[f"{key}={value}" for key, value in (sets or {}).items()],
        grids=[_typed(*pair) for pair in (grid or {}).items()], search=search, trials=trials,
        time_limit=time_limit, search_seed=search_seed, split=split, metrics=metrics, select=select,
        seeds=seeds, dtype=dtype, parts=parts, validate=validate is True,
        one_each=validate is False, output=_path(output), jobs=jobs, executor=executor,
        scheduler=scheduler, spread=spread, threads=threads, scratch=_path(scratch),
        devices=(device,) if isinstance(device, str) else tuple(device),
        trace=trace, keep=Keep(_path(save), _path(save_lists)), force=force,
        retry_failed=retry_failed, plugins=files,
        command=["recbench.api.run", *names],
    )  # fmt: skip
    return as_frame(estimates(request.runner())) if dry_run else request.run().table


def _path(path: Path | str | None) -> Path | None:
    return None if path is None else Path(path)


def _typed(key: str, values: str | Sequence[object]) -> str:
    return f"{key}={values if isinstance(values, str) else ','.join(map(str, values))}"


def trials(folder: Path | str | None = None) -> "pd.DataFrame":
    """Every trial of a results folder (default: the newest), one line per trial and part."""
    from recbench.campaign.table import table

    campaign = _opened_campaign(folder)
    return table(campaign.rows().values(), campaign.select())


def per_user(trial: str, folder: Path | str | None = None, part: str = "test") -> "pd.DataFrame":
    """The values of one trial, a line per user; models and texts name trials as in `compare`."""
    from recbench.report.compare import find

    campaign = _opened_campaign(folder)
    return campaign.mean_per_user(find(campaign, trial, campaign.select(), part))


def show(
    folder: Path | str | None = None,
    *,
    sort: str = "",
    top: int | None = None,
    metrics: Sequence[str] = (),
    dataset: str | None = None,
    part: str | None = None,
) -> "pd.DataFrame":
    """The models ranked, a line each: means and deviations over seeds, significance letters."""
    import pandas as pd

    from recbench.report.leaderboard import Wanted, leaderboard_views, measured_part

    campaign = _opened_campaign(folder)
    part = part or measured_part(campaign)
    wanted = Wanted("", part, sort, top, metrics, dataset)
    frames = [view.data for view in leaderboard_views(campaign, wanted) if view.part]
    if not frames:
        raise DataError(f"{campaign.folder} has no finished trials to rank")
    return pd.concat(frames, ignore_index=True)


def compare(
    a: str, b: str, folder: Path | str | None = None, *, part: str = "test",
    dataset: str | None = None, seed: int = 0,
) -> "pd.DataFrame":  # fmt: skip
    """Whether A is better than B: one line per metric and group of users or items."""
    from recbench.report.compare import compare_sides, find, view

    campaign = _opened_campaign(folder)
    first, second = (
        find(campaign, name, campaign.select(dataset), part, dataset) for name in (a, b)
    )
    return view(compare_sides(campaign, first, second, seed), first, second).frame


def check(
    datasets: Sequence[str] = (), output: Path | str = "results", *,
    published: Path | str | None = None, force: bool = False,
) -> "pd.DataFrame":  # fmt: skip
    """Published numbers and ours, of datasets that are at hand; one line per number.

    Results of this very code, by its content, are not run again unless `force` says so.
    """
    from recbench.campaign.request import Request
    from recbench.data.open import at_hand
    from recbench.published.check import check as check_rows
    from recbench.published.check import run_known
    from recbench.published.rows import load, read_own
    from recbench.report.findings import view

    known_rows = load() if published is None else read_own(Path(published))
    rows = [row for row in known_rows if not datasets or row.our_dataset in datasets]
    known = partial(run_known, folder=Path(output), how=Request(force=force))
    return view(check_rows(rows, at_hand, known), everything=True).frame


def report(
    folder: Path | str | None = None, output: Path | str | None = None,
    figures: Path | str | None = None,
) -> Path:  # fmt: skip
    """Write the HTML report of a results folder, and its charts as SVG files if `figures` says."""
    from recbench.report.html.figures import write_figures
    from recbench.report.html.page import page

    campaign = _opened_campaign(folder)
    path = Path(output) if output is not None else campaign.folder / "report.html"
    with atomic_path(path) as temporary:
        temporary.write_text(page(campaign), encoding="utf-8")
    if figures is not None:
        write_figures(campaign, "", Path(figures))
    return path


def export(
    dataset: "Source", output: Path | str, *, split: str | None = None, form: str = "csv"
) -> list[Path]:
    """Write a split as files that other tools read: `csv`, `lightgcn` or `recbole`."""
    from recbench.campaign.search.grammar import split_from
    from recbench.data.open import Access, default_split, open_source
    from recbench.splits.export import export as export_split

    rule, data = split_from(split or default_split(dataset)), open_source(dataset, Access())
    return export_split(data, rule.divide(data), form, Path(output))


def _opened_campaign(folder: Path | str | None) -> "Campaign":
    from recbench.campaign.folder import open_results

    return open_results(Path(folder) if folder is not None else None, warnings.warn)
