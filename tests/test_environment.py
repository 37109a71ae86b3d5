"""What is told of the machine: memory under limits of control groups, the state of the code."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from recbench import environment
from recbench.environment import (
    free_memory,
    lap_peak,
    left_by_limits,
    peak_memory,
    recent_peak,
    restart_peak,
    total_memory,
)
from recbench.errors import Refused
from recbench.models import context
from recbench.models.context import Context

MB = 1 << 20
UNLIMITED = 9223372036854771712


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """Say what a process is told of its groups: lines of /proc, and files under /sys."""

    def tell(lines: str, files: dict[str, str]) -> None:
        (tmp_path / "cgroup").write_text(lines)
        for name, text in files.items():
            path = tmp_path / "sys" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        monkeypatch.setattr(environment, "GROUPS", (tmp_path / "cgroup", tmp_path / "sys"))
        monkeypatch.setattr(context, "free_memory", environment.free_memory)  # asked once elsewhere

    return tell


def second(folder: str, limit: object, used: int, cached: int = 0) -> dict[str, str]:
    return {
        f"{folder}memory.max": f"{limit}\n",
        f"{folder}memory.current": f"{used}\n",
        f"{folder}memory.stat": f"anon 5\ninactive_file {cached}\n",
    }


def first(folder: str, limit: int, used: int, cached: int = 0) -> dict[str, str]:
    return {
        f"memory/{folder}memory.limit_in_bytes": f"{limit}\n",
        f"memory/{folder}memory.usage_in_bytes": f"{used}\n",
        f"memory/{folder}memory.stat": f"cache 5\ntotal_inactive_file {cached}\n",
    }


OLD = "4:memory:/docker/abc\n1:cpu:/\n0::/\n"


@pytest.mark.parametrize(
    ("lines", "files", "left"),
    [
        ("0::/a/b\n", second("a/b/", 100 * MB, 60 * MB, 5 * MB), 45 * MB),
        ("0::/a/b\n", second("a/b/", "max", 60 * MB) | second("a/", 80 * MB, 70 * MB), 10 * MB),
        ("0::/a\n", second("a/", 10 * MB, 12 * MB), 0),
        ("0::/\n", second("", 100 * MB, 60 * MB), 40 * MB),  # as seen inside a container
        ("0::/\n", second("", "max", 60 * MB), None),
        (OLD, first("docker/abc/", 100 * MB, 60 * MB, 1 * MB), 41 * MB),
        (OLD, first("", 100 * MB, 60 * MB), 40 * MB),
        (OLD, first("docker/abc/", UNLIMITED, 60 * MB), None),
        (OLD, {}, None),
        ("", {}, None),
    ],
)
def test_the_tightest_limit_counts(groups, lines, files, left):
    groups(lines, files)
    assert left_by_limits() == left
    assert free_memory() == left if left is not None else 0 < free_memory() <= total_memory()


def test_without_control_groups_the_machine_is_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "GROUPS", (tmp_path / "none", tmp_path / "none"))
    assert left_by_limits() is None


def test_a_fit_is_refused_what_its_group_would_not_give(groups):
    groups("0::/a\n", second("a/", 100 * MB, 60 * MB))
    Context().reserve(39 * MB, "a fit", "use less")
    with pytest.raises(Refused, match="a fit needs"):
        Context().reserve(41 * MB, "a fit", "use less")


@pytest.mark.slow
def test_a_fit_that_may_not_fit_goes_to_a_process_that_may_die(groups, recbench, own, folder):
    """It is told in a sentence; here it does fit, and gives the same numbers."""
    words = ["run", *own, "-m", "ease", "-k", "ndcg@10"]
    assert recbench(*words, "-o", "here").exit_code == 0
    groups("0::/a\n", second("a/", 100 * MB, 60 * MB))
    assert recbench(*words, "-o", "there").exit_code == 0
    tables = [(folder / name / "metrics.csv").read_bytes() for name in ("here", "there")]
    assert tables[0] == tables[1]


def test_which_fits_may_not_fit(groups, recbench, own, folder, monkeypatch):
    from recbench.campaign import request

    asked = []
    monkeypatch.setattr(request, "Processes", lambda parcel, jobs: asked.append(jobs) or 1 / 0)
    words = ["run", *own, "-m", "popularity", "-k", "ndcg@10"]
    groups("0::/a\n", second("a/", 900 * MB, 60 * MB))
    assert recbench(*words, "-o", "a").exit_code == 0
    groups("0::/a\n", second("a/", 100 * MB, 60 * MB))
    assert "ZeroDivisionError" in recbench(*words, "-o", "b").stderr
    assert asked == [1]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_asking_git_changes_nothing_in_a_repository(tmp_path):
    """A lock of its index would stay behind if the run is killed while git has it."""

    def git(*words):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    (tmp_path / "file").write_text("x")
    git("add", "file")
    git("-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x")
    os.utime(tmp_path / "file", (1, 1))  # so that status would write down that it looked
    before = (tmp_path / ".git" / "index").read_bytes()
    assert environment._git(tmp_path, "status", "--porcelain", "--untracked-files=no") == ""
    assert (tmp_path / ".git" / "index").read_bytes() == before


def test_a_blas_that_would_wait_for_room_for_ever_is_not_loaded(monkeypatch):
    monkeypatch.delitem(sys.modules, "scipy.linalg", raising=False)
    environment.room_for_blas()
    monkeypatch.setattr(environment, "LIBRARY_BYTES", 1 << 60)
    with pytest.raises(MemoryError, match="MB are missing to load SciPy's BLAS"):
        environment.room_for_blas()


def test_where_addresses_are_limited_there_must_be_room_for_threads_as_well(monkeypatch):
    monkeypatch.delitem(sys.modules, "scipy.linalg", raising=False)
    monkeypatch.setattr(environment, "THREAD_BYTES", 1 << 60)
    environment.room_for_blas()
    limits = (1 << 62, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits)
    with pytest.raises(MemoryError, match="MB are missing to load SciPy's BLAS and start threads"):
        environment.room_for_blas()


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="nothing forgets a peak")
def test_laps_take_nothing_from_the_peak_since_the_restart():
    restart_peak()
    np.ones(12_500_000)
    first, second = lap_peak(), lap_peak()
    assert first > second + 50_000_000
    assert recent_peak() >= first
    restart_peak()
    assert recent_peak() < first <= peak_memory()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the kernel says less")
def test_a_peak_is_not_that_of_whoever_started_the_process():
    held = bytearray(300_000_000)
    held[::4096] = b"x" * len(held[::4096])
    words = [sys.executable, "-c", "from recbench import environment as e; print(e.peak_memory())"]
    assert int(subprocess.run(words, capture_output=True, check=True).stdout) < len(held) / 2
