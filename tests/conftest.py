"""Fixtures for every test."""

import gc
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import scipy.linalg  # noqa: F401 - its BLAS is to be limited too, so it must be loaded
from click.testing import CliRunner, Result
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parent))  # `import toys` from any folder of tests

import toys
from recbench import environment
from recbench.campaign import request
from recbench.cli import main
from recbench.data import catalog
from recbench.linalg import speed
from recbench.models import context
from recbench.registry import LOSSES, METRICS, MODELS, READERS, SPLITS

Recbench = Callable[..., Result]

# Tests that a shell runs in the background inherit a Ctrl-C that is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """What is loaded by now stays: the collector need not look through it again and again.

    Nor need it come after every seven hundred new objects, as few of those are in cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(autouse=True, scope="session")
def known_once() -> Iterator[None]:
    """Look up once what stays the same; measure speed, which no test depends on, with little."""
    read, kept = catalog.read_catalog, {}

    def read_once(path: Path, folder: Path) -> dict[str, catalog.Entry]:
        key = path, folder, path.read_bytes()
        if key not in kept:
            kept[key] = read(path, folder)
        return dict(kept[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog, "read_catalog", read_once)
        patch.setattr(environment, "source", cache(environment.source))
        patch.setattr(environment, "version", cache(environment.version))
        patch.setattr(context, "free_memory", cache(environment.free_memory))
        patch.setattr(speed.gemm_gflops, "__defaults__", (256, 1))
        patch.setattr(speed.copy_gigabytes, "__defaults__", (1 << 20, 1))
        yield


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """Unless a test or a run asks for more: to wait for each other costs more than small sums."""
    with threadpool_limits(1, user_api="blas"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(request, "usable_cores", lambda: 1)
        yield


@pytest.fixture(autouse=True)
def plugins_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test registers is not there in the next."""
    for registry in (MODELS, METRICS, SPLITS, READERS, LOSSES):
        monkeypatch.setattr(registry, "_loaded", dict(registry._loaded))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with a small csv file and an empty data folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECBENCH_HOME", str(tmp_path / "home"))
    (tmp_path / "toy.csv").write_text(toys.csv_of(toys.two_tastes()))
    return tmp_path


@pytest.fixture
def recbench(folder: Path) -> Recbench:
    """Run a command in this process; the result has stdout, stderr and exit_code."""

    def call(*words: str) -> Result:
        return CliRunner().invoke(main, list(words), prog_name="recbench", env={"COLUMNS": "200"})

    return call


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """`recbench check debian`, which takes long and so is run once: its result, its folder."""
    kept = tmp_path_factory.mktemp("golden")
    words = ["check", "debian", "-o", str(kept)]
    return CliRunner().invoke(main, words, prog_name="recbench"), kept


@pytest.fixture
def checked(golden: tuple[Result, Path], folder: Path) -> None:
    """Have the results of `recbench check debian` in the working directory, as if it had run."""
    shutil.copytree(golden[1], folder / "results")


@pytest.fixture
def dated(folder: Path) -> list[str]:
    """The options that name a file with times, split so that the test has a fit of its own."""
    rows = [f"{u},{i},{u + i}" for u in range(60) for i in range(15) if (u * i) % 3]
    (folder / "dated.csv").write_text("\n".join(["user,item,t", *rows]) + "\n")
    return ["--data", "dated.csv", "--time", "t", "--split", "last"]


@pytest.fixture
def own() -> list[str]:
    """The options that name the small csv file."""
    return ["--data", "toy.csv", "--user", "u", "--item", "i"]
