"""The executor on real clusters, of processes that meet on the loopback interface."""

import asyncio
import gc
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

import toys
from recbench.campaign.cluster.executor import Cluster
from recbench.campaign.cluster.link import DaskLink, Lost
from recbench.campaign.executors import InProcess, Parcel
from recbench.campaign.folder import Campaign
from recbench.campaign.plan import Plan
from recbench.campaign.runner import Runner
from recbench.campaign.worker import Worker
from recbench.errors import UsageError
from recbench.evaluate.metrics import parse_metric
from recbench.models.linear import lae
from recbench.splits.strong import Strong

distributed = pytest.importorskip("distributed", reason="needs the extra 'dask'")
ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from bench import cluster as bench  # noqa: E402 - it is beside the tests, not in the package

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
"""Dask leaves loops and sockets of lost schedulers to the garbage collector."""

GRID = (*(lae.Ease(l2=value) for value in (0.1, 1.0, 10.0, 100.0)), lae.Edlae())

OTHER_VERSION = """
import importlib.metadata
import sys

true = importlib.metadata.version
importlib.metadata.version = lambda name: "2024.5.0" if name == "distributed" else true(name)
from distributed.cli.dask_scheduler import main

main(["--host", "127.0.0.1", "--port", sys.argv[1], "--no-dashboard"])
"""


@pytest.fixture(autouse=True)
def collected():
    """What is left behind is collected here, where it is known whose it is."""
    yield
    gc.collect()


def worker(*models) -> Worker:
    metric = parse_metric("ndcg@10")
    return Worker(Plan(toys.two_tastes(), Strong(), models, [metric], metric.text))


def local(workers: int):
    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, dashboard_address=":0", host="127.0.0.1"
    )


@pytest.mark.slow
def test_a_cluster_that_loses_a_worker_gives_the_same_table(tmp_path):
    made = worker(*GRID)
    Runner(made, Campaign(tmp_path / "one"), InProcess(made)).run()
    told = []
    made.context.progress = lambda *note: told.append(note)
    second = Runner(made, Campaign(tmp_path / "two"))
    named: list[list[str]] = []
    second.at_work = lambda names: named.append([*names])
    records, record = [], second._record
    with local(2) as cluster:

        def kill_one(outcome) -> None:
            if not records:
                next(iter(cluster.workers.values())).process.process.kill()
            records.append(outcome)
            record(outcome)

        second._record = kill_one  # type: ignore[method-assign]
        link = partial(DaskLink, cluster.scheduler_address)
        second.executor = Cluster(Parcel.of(made), link, folder=tmp_path / "two")
        second.run()
    assert len(records) >= len(GRID)
    assert any(what.startswith("inverse of") for what, _, _ in told)  # from the workers
    assert max(map(len, named)) > 1  # what each was given
    tables = [(tmp_path / name / "metrics.csv").read_bytes() for name in ("one", "two")]
    assert tables[0] == tables[1]
    assert not list((tmp_path / "two").glob(".cargo*"))


@pytest.mark.slow
def test_a_cluster_that_starts_empty_grows_when_there_is_work(tmp_path):
    made, said = worker(*GRID), []
    with local(0) as cluster:
        cluster.adapt(minimum=0, maximum=2, interval="200ms")
        link = partial(DaskLink, cluster.scheduler_address)
        executor = Cluster(Parcel.of(made), link, announce=said.append)
        rows = Runner(made, Campaign(tmp_path), executor).run()
    assert {row.status for row in rows} == {"ok"}
    assert said[:2] == [
        "the cluster has no workers: waiting for the first",
        "1 worker ready, on 1 machine",
    ]


@pytest.mark.slow
def test_the_command_line_says_who_works(recbench, own):
    with local(1) as cluster:
        words = ["--executor", "dask", "--scheduler", cluster.scheduler_address]
        done = recbench("run", *own, "-m", "ease", "--tiles-on-disk", "tiles", "-o", "out", *words)
    assert done.exit_code == 0, done.output
    assert "1 worker ready, on 1 machine" in done.stderr
    assert Path("tiles").is_dir()  # where it was typed, not where the worker stands
    assert not [path.name for path in Path("out").iterdir() if path.name.startswith(".cargo")]


@pytest.mark.slow
def test_trouble_changes_no_byte_and_is_told_in_sentences(tmp_path, caplog):
    same, words = bench.compare(tmp_path, trials=24, workers=2, seed=1, scheduler_dies=True)
    assert same, words
    assert "with the scheduler" in words
    assert not caplog.records


@pytest.mark.slow
def test_a_scheduler_of_another_version_is_one_sentence(tmp_path):
    port = bench.free_port()
    with subprocess.Popen([sys.executable, "-c", OTHER_VERSION, str(port)]) as scheduler:
        try:
            with pytest.raises(UsageError, match=r"has distributed 2024\.5\.0, Python .*and here"):
                DaskLink(f"tcp://127.0.0.1:{port}", "topic", print)
        finally:
            scheduler.kill()


def test_a_worker_that_dask_pauses_is_there_still():
    states = {"a": "running", "b": "paused", "c": "closing_gracefully"}
    workers = {name: {"status": state, "local_directory": name} for name, state in states.items()}
    link = object.__new__(DaskLink)
    identity = SimpleNamespace(identity=None)
    link._client = SimpleNamespace(scheduler=identity, sync=lambda *_, **__: {"workers": workers})
    assert link.workers() == {"a": "a", "b": "b"}
    link._client = None
    with pytest.raises(Lost):
        link.workers()


def test_dask_forgets_what_nobody_waits_for_any_more():
    released = []
    remote = SimpleNamespace(release=lambda: released.append(True))
    link = object.__new__(DaskLink)
    link._client = SimpleNamespace(gather=lambda *_, **__: asyncio.sleep(60))

    async def give_up() -> None:
        answer = asyncio.ensure_future(link._answer(remote))
        await asyncio.sleep(0)
        answer.cancel()
        await asyncio.wait([answer])

    asyncio.run(give_up())
    assert released


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "tls://127.0.0.1:9", "nonsense"])
def test_a_scheduler_that_is_not_there_is_one_sentence(address):
    with pytest.raises(UsageError, match=f"no Dask scheduler answers at {address}"):
        DaskLink(address, "topic", print, timeout=1.0)


def test_nor_is_one_that_goes_while_it_is_asked_for_its_versions(monkeypatch):
    def gone() -> None:
        raise OSError("closed")

    closed = []
    client = SimpleNamespace(get_versions=gone, close=lambda timeout: closed.append(timeout))
    monkeypatch.setattr(distributed, "Client", lambda *_, **__: client)
    with pytest.raises(UsageError, match="no Dask scheduler answers at tcp://there:1"):
        DaskLink("tcp://there:1", "topic", print)
    assert closed
