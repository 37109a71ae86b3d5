import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import toys
from recbench.campaign.executors import InProcess, Parcel, work_on
from recbench.campaign.folder import Campaign
from recbench.campaign.plan import Plan
from recbench.campaign.processes import Processes
from recbench.campaign.runner import Runner
from recbench.campaign.worker import Job, Worker
from recbench.errors import UsageError
from recbench.evaluate.metrics import parse_metric
from recbench.models.linear import lae
from recbench.registry import MODELS, load_plugin
from recbench.splits.strong import Strong

GRID = (*(lae.Ease(l2=value) for value in (0.1, 1.0, 10.0, 100.0)), lae.Edlae())

DEADLY = toys.FAILING.replace("raise ZeroDivisionError", "import os; os._exit(9)  #").replace(
    "fragile", "deadly"
)

PLACED = """
from dataclasses import dataclass, replace

from recbench.models.base import Model
from recbench.models.popularity import Popularity
from recbench.params import param
from recbench.registry import MODELS


@MODELS.register("placed")
@dataclass(frozen=True)
class Placed(Model):
    \"\"\"Tells where it was fitted.\"\"\"

    x: int = param(0, help="nothing")

    def fit(self, train, ctx):
        for step in (1, 2, 3):
            ctx.progress("steps", step, 3)
        return replace(Popularity().fit(train, ctx), facts={"device": float(ctx.device)})
"""


def worker(*models) -> Worker:
    metric = parse_metric("ndcg@10")
    return Worker(Plan(toys.two_tastes(), Strong(), models, [metric], metric.text))


def table(folder: Path) -> bytes:
    return (folder / "metrics.csv").read_bytes()


@pytest.mark.slow
def test_processes_give_the_table_that_one_process_gives(tmp_path):
    made = worker(*GRID)
    Runner(made, Campaign(tmp_path / "one"), InProcess(made)).run()
    Runner(made, Campaign(tmp_path / "two"), Processes(Parcel.of(made), 2)).run()
    assert table(tmp_path / "one") == table(tmp_path / "two")


@pytest.mark.slow
def test_a_process_that_dies_takes_no_other_trial_with_it(tmp_path):
    path = tmp_path / "deadly.py"
    path.write_text(DEADLY)
    load_plugin(path)
    deadly = MODELS.get("deadly")
    made = worker(deadly(x=0), deadly(x=1), deadly(x=4), lae.Ease())
    executor = Processes(Parcel.of(made, [path]), 2)
    rows = {row.text: row for row in Runner(made, Campaign(tmp_path / "r"), executor).run()}
    assert rows["deadly[x=1]"].status == "failed"
    assert "its process died (exit code 9), alone as in company" in rows["deadly[x=1]"].reason
    assert {rows[text].status for text in ("deadly[x=0]", "deadly[x=4]", lae.Ease().text)} == {"ok"}


ENDLESS = """
import os
import time
from dataclasses import dataclass
from pathlib import Path

from recbench.models.base import Model
from recbench.registry import MODELS


@MODELS.register("endless")
@dataclass(frozen=True)
class Endless(Model):
    \"\"\"Says who it is, and never ends.\"\"\"

    def fit(self, train, ctx):
        Path("process.part").write_text(str(os.getpid()))
        Path("process.part").rename("process")
        time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_processes_end_when_the_run_is_killed(folder: Path, sent: signal.Signals):
    (folder / "endless.py").write_text(ENDLESS)
    (folder / "temporary").mkdir()
    words = "run --data toy.csv --user u --item i -q --plugin endless.py -m endless -j 2"
    run = subprocess.Popen(
        [sys.executable, "-m", "recbench", *words.split()],
        env={**os.environ, "TMPDIR": str(folder / "temporary")},
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # nohup ignores it
    )
    wait_for(lambda: (folder / "process").exists())
    process = int((folder / "process").read_text())
    run.send_signal(sent)
    run.wait()
    wait_for(lambda: not list((folder / "temporary").glob("recbench-slots-*")))
    wait_for(lambda: not is_alive(process))


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def is_alive(process: int) -> bool:
    """Whether a process runs still; one that nobody has waited for does not."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.slow
def test_processes_tell_how_far_they_are_and_each_has_a_device(tmp_path):
    path = tmp_path / "placed.py"
    path.write_text(PLACED)
    load_plugin(path)
    placed, told = MODELS.get("placed"), []
    made = worker(*(placed(x=x) for x in range(6)))
    made.devices = ("7", "8")
    made.context.progress = lambda *note: told.append(note)
    rows = Runner(made, Campaign(tmp_path / "r"), Processes(Parcel.of(made, [path]), 2)).run()
    devices = {row.facts["device"] for row in rows if row.part == "valid"}
    assert devices <= {7.0, 8.0}
    steps = [note for note in told if note[0].startswith("steps [")]
    assert {note[0] for note in steps} <= {"steps [1]", "steps [2]"}
    assert ("steps [1]", 3, 3) in steps or ("steps [2]", 3, 3) in steps


def test_what_cannot_be_sent_is_refused_in_a_sentence():
    class Hidden(lae.Ease):
        """No other process finds it: only this function knows where it is."""

    with pytest.raises(UsageError, match=r"cannot be sent to another process.*Hidden"):
        Parcel.of(worker(Hidden()))


def test_a_parcel_is_opened_once():
    made = worker(lae.Ease())
    parcel = Parcel.of(made)
    first = parcel.open()
    assert parcel.open() is first
    (valid, test) = work_on(parcel, pickle.dumps(Job(made.plan.trials, "valid")))
    assert (valid.row.part, test.row.part, test.provisional) == ("valid", "test", True)


def test_two_runs_on_one_folder_share_the_work(tmp_path):
    """One process has reserved a fit: another does the rest, waits, and takes its row."""
    import threading
    import time

    from recbench.campaign.tasks import tasks_of

    made = worker(*GRID)
    campaign = Campaign(tmp_path)
    campaign.create()
    task = tasks_of(made.plan.trials, "valid")[0]
    held = campaign.claim(task.step)
    assert held is not None
    assert campaign.claim(task.step) is None
    said = []
    second = Runner(worker(*GRID), Campaign.open(tmp_path), announce=said.append)
    thread = threading.Thread(target=second.run)
    thread.start()
    while len(campaign.rows()) < len(GRID) - 1:
        time.sleep(0.02)
    for outcome in made.work(Job(task.trials, "valid"))[:1]:
        campaign.record(outcome.row, outcome.values)
    held.release()
    thread.join(timeout=30)
    assert not thread.is_alive()
    log = campaign.log.read_text()
    assert all(log.count(f'"trial": "{t.id}"') in (1, 2) for t in made.plan.trials)
    assert len([row for row in campaign.rows().values() if row.part == "valid"]) == len(GRID)
    assert not (tmp_path / ".claims").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="uses os.fork-free signals of POSIX")
def test_claims_of_a_dead_process_are_free(tmp_path):
    campaign = Campaign(tmp_path)
    campaign.create()
    pid = os.fork()
    if pid == 0:
        campaign.claim("step")
        os._exit(0)  # killed: no clean-up runs
    os.waitpid(pid, 0)
    held = campaign.claim("step")
    assert held is not None
    held.release()
