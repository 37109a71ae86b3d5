"""Kernels on new machines: where what is compiled is kept, and that no clock runs meanwhile."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import recbench

PACKAGE = Path(recbench.__file__).parent
KERNELS = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in PACKAGE.rglob("*_kernel.py")
)
CODE = """
import importlib, sys
from numba.core.caching import CacheImpl

CacheImpl._locator_classes = []  # none of numba's places for machine code can be written to
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def test_every_kernel_does_without_a_place_on_disk():
    assert len(KERNELS) >= 6
    done = subprocess.run([sys.executable, "-c", CODE, *KERNELS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


NEW = """
import json, sys
from numba.core import event

import toys
from recbench.campaign.plan import Plan
from recbench.campaign.worker import Job, Worker
from recbench.evaluate.metrics import parse_metric
from recbench.linalg.clock import CLOCK
from recbench.linalg.compiled import COMPILING
from recbench.models.context import Context
from recbench.registry import MODELS, build
from recbench.splits.weak import Weak

class Compilations(event.Listener):
    made, counted, begun = 0, 0.0, []

    def on_start(self, what):
        self.begun.append(CLOCK.now())

    def on_end(self, what):
        self.made += 1
        self.counted += CLOCK.now() - self.begun.pop()

seen, told = Compilations(), []
event.register("numba:compile", seen)
ndcg = parse_metric("ndcg@10")
context = Context(progress=lambda *said: told.append(said))
plan = Plan(toys.two_tastes(), Weak(), [build(sys.argv[1], MODELS)], [ndcg], ndcg.text)
worker = Worker(plan, context)
found = []
for _ in range(2):
    seen.made, told[:] = 0, []
    row = worker.work(Job(plan.trials, "valid"))[0].row
    compiling = [said for said in told if said[0] == COMPILING]
    found.append([seen.made, seen.counted, row.status, row.compile_seconds, compiling])
print(json.dumps(found))
"""


@pytest.mark.parametrize("model", ["ease", pytest.param("ials", marks=pytest.mark.slow)])
def test_no_clock_runs_while_the_first_fit_on_a_machine_compiles(tmp_path, model):
    """With an empty folder for machine code, in a process of its own."""
    paths = os.pathsep.join([str(Path(__file__).resolve().parents[1]), *sys.path])
    variables = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": paths}
    words = [sys.executable, "-c", NEW, model]
    done = subprocess.run(words, capture_output=True, text=True, env=variables)
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)
    made, counted, status, seconds, told = first
    assert made > 10
    assert counted == 0.0
    assert status == "ok"
    assert seconds > 0.0
    assert told[0][1:] == [1, 0]
    assert told[-1][1:] == [made, made]
    assert second == [0, 0.0, "ok", 0.0, []]
    assert [*tmp_path.rglob("*.nbc")]


KEPT = """
import sys
from numba.core import caching

caching.CacheImpl._locator_classes = [caching.UserProvidedCacheLocator]  # no other can be written
from recbench.linalg.compiled import compiled

@compiled
def twice(x: int) -> int:
    return 2 * x

assert twice(4) == 8
print(type(twice._cache).__name__)
"""


@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_machine_code_is_kept_where_only_its_user_can_write(tmp_path, mode):
    """Not in folders of everybody: what lies there is run."""
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    for folder in (home, temporary):
        folder.mkdir()
    home.chmod(mode)
    script = tmp_path / "script.py"
    script.write_text(KEPT)
    variables = {**os.environ, "RECBENCH_HOME": str(home), "TMPDIR": str(temporary)}
    variables.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env=variables, umask=0o002
    )
    assert done.returncode == 0, done.stderr
    [kept] = tmp_path.rglob("compiled")
    assert not kept.stat().st_mode & 0o022  # whatever is usual here
    assert bool([*home.rglob("*.nbc")]) == (mode == 0o700)
    assert bool([*temporary.rglob("*.nbc")]) == (mode == 0o777)


def test_what_stops_a_run_while_it_compiles_does_not_stop_the_next_one():
    from numba.core import event

    from recbench.linalg.compiled import COMPILE, compiling_told

    def stop(*said):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), compiling_told(stop):
        event.start_event(COMPILE)
    event.start_event(COMPILE)
