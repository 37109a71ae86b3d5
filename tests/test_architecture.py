"""Who may import whom, and that the rules notice what breaks them."""

import shutil
from pathlib import Path

import pytest

import recbench
from architecture import (
    SOCKETS,
    cycles,
    eager,
    forbidden,
    graph,
    impatient,
    levels,
    modules,
    speakers,
)

PACKAGE = Path(recbench.__file__).parent


@pytest.fixture(scope="module")
def arrows():
    return graph(PACKAGE)


def test_imports_go_to_rooms_that_come_before(arrows):
    assert not list(forbidden(arrows))


def test_no_modules_import_each_other(arrows):
    assert not cycles(arrows)


def test_only_one_module_opens_a_socket():
    assert speakers(PACKAGE) <= SOCKETS


def test_nothing_imports_pytorch_until_a_model_is_fitted():
    assert not list(eager(PACKAGE))


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ("models/popularity.py", "def late():\n    import torch"),
        ("models/deep/library.py", "import torch.nn"),
        ("models/deep/family.py", "from recbench.models.deep.nets import trainer"),
        ("models/deep/family.py", "class Early:\n    import recbench.models.deep.nets.trainer"),
    ],
    ids=["elsewhere", "the loader", "nets", "nets, in a class"],
)
def test_pytorch_that_comes_early_is_noticed(tmp_path, where, line):
    assert list(eager(_with(tmp_path, where, line)))


def test_nothing_imports_sparse_matrices_until_one_is_made():
    assert not impatient(PACKAGE)


@pytest.mark.parametrize(
    "line",
    ["from scipy import sparse", "import scipy.sparse", "from scipy.sparse import csr_array"],
)
def test_sparse_matrices_that_come_early_are_noticed(tmp_path, line):
    assert impatient(_with(tmp_path, "models/popularity.py", line)) == {"models.popularity"}


def test_classes_are_at_most_three_levels_deep():
    assert {name for name, depth in levels(PACKAGE).items() if depth > 3} == set()


def test_a_fourth_level_is_noticed(tmp_path):
    package = _with(tmp_path, "models/popularity.py", "class Often(Popularity): ...")
    assert {name for name, depth in levels(package).items() if depth > 3} == {"Often"}


def test_few_modules_stand_at_the_top():
    top = [name for name, path in modules(PACKAGE).items() if path.name != "__init__.py"]
    assert sum("." not in name for name in top) <= 11


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ("linalg/gram.py", "from recbench.models import scorers"),
        ("linalg/gram.py", "def late():\n    from recbench import api"),
        ("splits/weak.py", "import recbench.models.scorers"),
        ("registry.py", "from recbench.data.dataset import Dataset"),
        ("campaign/plan.py", "from recbench.report.tables import View"),
        ("cellar.py", "x = 1"),
    ],
    ids=["from a room", "from the package, in a function", "import", "ground", "up", "no place"],
)
def test_a_forbidden_import_is_noticed(tmp_path, where, line):
    assert list(forbidden(graph(_with(tmp_path, where, line))))


def test_a_cycle_is_noticed(tmp_path):
    package = _with(
        tmp_path, "splits/types.py", "def late():\n    from recbench.splits import weak"
    )
    assert any("splits.types" in cycle for cycle in cycles(graph(package)))


def test_a_socket_elsewhere_is_noticed(tmp_path):
    package = _with(tmp_path, "report/tables.py", "def late():\n    from socket import socket")
    assert "report.tables" in speakers(package)


def _with(folder: Path, where: str, line: str) -> Path:
    """A copy of the package with a line more."""
    package = folder / "recbench"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "*.parquet"))
    with (package / where).open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    return package
