"""What happens on a worker, with a worker that is none of Dask's."""

import errno
import io
import pickle
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import toys
from recbench.campaign import executors
from recbench.campaign.cluster import there
from recbench.campaign.cluster.cargo import Cargo, Unfit, share
from recbench.campaign.cluster.there import Terms
from recbench.campaign.executors import Parcel
from recbench.campaign.plan import Plan
from recbench.campaign.worker import Job, Worker
from recbench.environment import held_memory, peak_memory
from recbench.evaluate.metrics import parse_metric
from recbench.models.popularity import Popularity
from recbench.registry import MODELS, load_plugin
from recbench.splits.strong import Strong

LIMIT = held_memory() + (2 << 30)

NOSY = """
import logging
import warnings
from dataclasses import dataclass, replace

from recbench.models.base import Model
from recbench.models.popularity import Popularity
from recbench.registry import MODELS


@MODELS.register("nosy")
@dataclass(frozen=True)
class Nosy(Model):
    \"\"\"Tells where it was fitted, and warns.\"\"\"

    def fit(self, train, ctx):
        warnings.warn("beware")
        logging.getLogger("nosy").warning("of %s", "me")
        logging.getLogger("nosy").info("or not")
        ctx.progress("steps", 1, 1)
        facts = {"device": float(ctx.device), "threads": float(ctx.threads), "gb": ctx.memory / 1e9}
        return replace(Popularity().fit(train, ctx), facts=facts)
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A worker of four threads with a limit, and what it says."""
    said: list[tuple] = []
    (tmp_path / "space" / "worker").mkdir(parents=True)
    stand_in = SimpleNamespace(
        local_directory=str(tmp_path / "space" / "worker"), name="w1", said=said,
        log_event=lambda topic, message: said.append((topic, *message)),
        state=SimpleNamespace(nthreads=4),
        memory_manager=SimpleNamespace(memory_limit=LIMIT),
    )  # fmt: skip
    monkeypatch.setattr(there, "this_worker", lambda: stand_in)
    monkeypatch.setattr(executors, "_OPENED", {})
    return stand_in


def packed(model, *plugins: Path) -> Parcel:
    metric = parse_metric("ndcg@10")
    plan = Plan(toys.two_tastes(), Strong(), [model], [metric], metric.text)
    return Parcel.of(Worker(plan, devices=("5", "6")), plugins)


def test_a_fit_has_what_its_worker_has_and_says_what_happens(here, tmp_path, recwarn):
    path = tmp_path / "nosy.py"
    path.write_text(NOSY)
    load_plugin(path)
    parcel = packed(MODELS.get("nosy")(), path)
    cargo = share(parcel, tmp_path, None)
    greeting = there.greet(cargo, ("pytest",))
    assert greeting.has_cargo
    assert greeting.environment["packages"]["pytest"] == pytest.__version__
    room = there.open_up(cargo)
    # Nine tenths of the limit, less what is held.
    assert room.memory == pytest.approx(0.9 * LIMIT - held_memory(), rel=0.1)
    job = pickle.dumps(Job(executors._OPENED[cargo.digest].plan.trials, "valid"))
    facts = []
    for terms in (Terms("topic", 1, None), Terms("topic", 0, 2)):
        outcomes, disk = there.fit(cargo, job, terms)
        facts.append(outcomes[0].row.facts)
        assert disk == 0
    assert [(one["device"], one["threads"]) for one in facts] == [(6.0, 4.0), (5.0, 2.0)]
    assert all(0 < one["gb"] < 0.9 * LIMIT / 1e9 for one in facts)
    assert ("topic", "progress", "steps [w1]", 1, 1) in here.said
    assert ("topic", "log", "w1: UserWarning: beware") in here.said
    assert ("topic", "log", "w1: warning: of me") in here.said
    assert not [one for one in here.said if "or not" in str(one)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("as before", stacklevel=1)
    assert len(caught) == 1


def test_data_that_were_sent_are_those_that_were_packed(here, tmp_path):
    parcel = packed(Popularity())
    cargo, content = share(parcel, None, None), parcel.pickled
    assert not there.greet(cargo).has_cargo
    there.take(cargo, 0, content[:100])
    assert not there.greet(cargo).has_cargo
    there.take(cargo, 100, content[100:])
    assert there.greet(cargo).has_cargo
    assert there.open_up(cargo).memory
    assert sorted(path.suffix for path in (tmp_path / "space").iterdir()) == ["", ".cargo"]
    there.forget(cargo)
    assert not there.greet(cargo).has_cargo


def test_the_limit_of_a_worker_is_its_own_whatever_others_hold(here, tmp_path, monkeypatch):
    parcel = packed(Popularity())
    monkeypatch.setattr(there, "free_memory", lambda: 1)
    room = there.open_up(share(parcel, tmp_path, None))
    assert room.free == 1
    assert room.memory == pytest.approx(0.9 * LIMIT - held_memory(), rel=0.1)


def test_damage_on_the_way_or_on_disk_is_noticed(here, tmp_path):
    parcel = packed(Popularity())
    cargo, content = share(parcel, None, None), parcel.pickled
    with pytest.raises(Unfit, match="damaged"):
        there.take(cargo, 0, b"x" * len(content))
    there.take(cargo, 0, content)
    cargo.place(tmp_path / "space").write_bytes(b"x" * len(content))
    with pytest.raises(Unfit, match="damaged"):
        there.open_up(cargo)
    assert not executors._OPENED


def test_a_disk_without_space_is_one_sentence_and_leaves_nothing(here, tmp_path, monkeypatch):
    class Full(io.BytesIO):
        def write(self, piece):
            raise OSError(errno.ENOSPC, "No space left on device")

    cargo = share(packed(Popularity()), None, None)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda *_: Full())
        with pytest.raises(Unfit, match=r"cannot be kept in .*space \(No space left on device\)"):
            there.take(cargo, 0, b"x")
    assert [path.name for path in (tmp_path / "space").iterdir()] == ["worker"]


def test_plugins_must_be_there_and_the_same(here, tmp_path):
    path = tmp_path / "nosy.py"
    path.write_text(NOSY)
    load_plugin(path)
    parcel = packed(MODELS.get("nosy")(), path)
    cargo = share(parcel, tmp_path, None)
    path.write_text(NOSY + "\n")
    with pytest.raises(Unfit, match=r"nosy.py is another file than where the run was started"):
        there.open_up(cargo)
    path.unlink()
    with pytest.raises(Unfit, match=r"nosy.py is not there; put it where all workers have it"):
        there.open_up(cargo)


def test_what_is_not_installed_is_told(here, tmp_path):
    cargo = share(packed(Popularity()), None, None)
    content = b"cnowhere\nModel\n."  # a pickle of what can be imported only elsewhere
    other = share(replace(packed(Popularity()), pickled=content), None, None)
    there.take(other, 0, content)
    with pytest.raises(Unfit, match="No module named 'nowhere'"):
        there.open_up(other)
    assert cargo.digest != other.digest


def test_space_for_large_inverses_is_told(here, tmp_path):
    parcel = packed(Popularity())
    assert there.open_up(share(parcel, tmp_path, tmp_path / "tiles")).disk > 0
    (tmp_path / "file").write_text("")
    assert there.open_up(share(parcel, tmp_path, tmp_path / "file")).disk == 0


def test_a_folder_that_cannot_be_written_is_not_shared(tmp_path):
    assert share(packed(Popularity()), tmp_path / "nowhere", None).shared is None


def test_a_shared_file_is_one_that_the_next_run_removes(tmp_path):
    shared = share(packed(Popularity()), tmp_path, None).shared
    assert shared is not None
    assert shared.name.startswith(".")
    assert shared.suffix == ".part"
    stale = tmp_path / shared.name.replace(shared.stem.rpartition("-")[2], "999999999")
    stale.write_text("of a run that was killed")
    assert isinstance(share(packed(Popularity()), tmp_path, None), Cargo)
    assert not stale.exists()


def test_what_is_held_is_no_more_than_ever_was():
    assert 0 < held_memory() <= 1.1 * peak_memory()
