"""Fixtures for every test."""

import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parent))  # `import toys` from any folder of tests

import toys
from recbench.cli import main
from recbench.linalg import speed
from recbench.registry import METRICS, MODELS, READERS, SPLITS

Recbench = Callable[..., Result]

# Tests that a shell runs in the background inherit a Ctrl-C that is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def small_measurements() -> Iterator[None]:
    """No test asks how fast this machine is, only that it is said: small arrays tell as much."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(speed.gemm_gflops, "__defaults__", (256, 1))
        patch.setattr(speed.copy_gigabytes, "__defaults__", (1 << 20, 1))
        yield


@pytest.fixture
def one_thread() -> Iterator[None]:
    """On a busy machine the barriers inside BLAS cost more than small sums."""
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with a small csv file and an empty data folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECBENCH_HOME", str(tmp_path / "home"))
    for registry in (MODELS, METRICS, SPLITS, READERS):  # forget plugins of one test in the next
        monkeypatch.setattr(registry, "_loaded", dict(registry._loaded))
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
def own() -> list[str]:
    """The options that name the small csv file."""
    return ["--data", "toy.csv", "--user", "u", "--item", "i"]
