"""PyTorch that is missing, old, or finds no graphics processor: sentences, only of a fit."""

import signal
import sys

import pytest

from recbench import environment
from recbench.errors import DataError
from recbench.models.context import Context
from recbench.models.deep import library
from recbench.models.deep.library import load, session
from recbench.registry import MODELS

DEEP = [name for name in MODELS.names() if MODELS.get(name).extra]
INSTALL = 'pip install "recbench-suite[torch]"'


@pytest.fixture
def bare(monkeypatch):
    """As if PyTorch were not installed."""
    for name in [*sys.modules]:
        if name.startswith("recbench.models.deep.nets"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    real = environment.version
    monkeypatch.setattr(
        environment, "version", lambda name: None if name == "torch" else real(name)
    )


def test_there_are_models_of_this_kind():
    assert {"mult-dae", "mult-vae", "cdae", "neumf"} <= {*DEEP}


def test_without_pytorch_all_works_but_a_fit(bare, recbench, own):
    listed = recbench("list", "models")
    assert all(name in listed.stdout for name in DEEP)
    for name in DEEP:
        told = recbench("info", name)
        assert told.exit_code == 0
        assert f"torch, which is missing: {INSTALL}" in told.stdout
    words = ["run", *own, "-m", "popularity", "-m", "mult-vae", "-o", "out"]
    planned = recbench(*words, "--dry-run")
    assert planned.exit_code == 0, planned.output
    refused = recbench(*words)
    assert refused.exit_code == 3
    assert f"mult-vae needs torch, an extra that is not installed: {INSTALL}" in refused.stderr
    saved = recbench("recommend", *own, "-m", "neumf", "--for", "u001")
    assert saved.exit_code == 3
    assert f"is trained by PyTorch, which cannot be imported here; install it: {INSTALL}" in (
        saved.stderr
    )


def test_a_saved_model_recommends_without_pytorch(request, recbench, own, tmp_path):
    pytest.importorskip("torch", reason="PyTorch, an extra, is not installed")
    words = ["-k", "ndcg@5", "-o", "out", "--save", "kept"]
    for model in ("mult-vae[epochs=2,code=3,hidden=4]", "neumf[epochs=2,factors=4]"):
        done = recbench("run", *own, "--split", "weak", "-m", model, *words)
        assert done.exit_code == 0, done.output
    request.getfixturevalue("bare")
    for folder in sorted((tmp_path / "kept").iterdir()):
        lists = recbench("recommend", "--saved", str(folder), "--for", "u001", "-n", "3")
        assert lists.exit_code == 0, lists.output
        history = recbench("recommend", "--saved", str(folder), "--history", "3,5")
        known = "neumf" in folder.name
        assert history.exit_code == (1 if known else 0), history.output
        assert ("recommend to users of the data (--for)" in history.stderr) == known


def test_a_broken_pytorch_says_what_it_says(bare, monkeypatch):
    class Broken:
        def find_spec(self, name, path, target=None):
            if name == "torch":
                raise OSError("libtorch.so: no such file")

    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    with pytest.raises(DataError, match=r"imported here \(libtorch.so: no such file\); install it"):
        load()


class Fake:
    """PyTorch as far as this module looks at it."""

    class cuda:
        is_available = staticmethod(lambda: True)
        device_count = staticmethod(lambda: 2)

    device = staticmethod(str)

    def __init__(self, version):
        self.__version__ = version


@pytest.mark.parametrize(
    ("version", "fits"), [("2.1.2", False), ("2.2.0+cu121", True), ("2.13", True)]
)
def test_an_old_pytorch_is_refused(monkeypatch, version, fits):
    monkeypatch.setitem(sys.modules, "torch", Fake(version))
    if fits:
        assert load().__version__ == version
        return
    with pytest.raises(DataError, match=r"2\.1\.2 is here, and 2\.2 is the oldest that serves"):
        load()


HALF = """
import signal
__version__ = "9.0"
try:
    signal.raise_signal(signal.SIGINT)
    whole = True
except KeyboardInterrupt:
    whole = False
"""


def test_an_interrupt_waits_for_the_end_of_the_import(bare, monkeypatch, tmp_path):
    (tmp_path / "torch.py").write_text(HALF)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch")
    with pytest.raises(KeyboardInterrupt):
        load()
    assert load().whole
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_waits_for_what_a_session_imports(monkeypatch):
    torch = pytest.importorskip("torch", reason="PyTorch, an extra, is not installed")
    set_, whole = torch.use_deterministic_algorithms, []

    def interrupted(*args, **words):
        if not whole:
            signal.raise_signal(signal.SIGINT)
            whole.append(True)
        set_(*args, **words)

    monkeypatch.setattr(torch, "use_deterministic_algorithms", interrupted)
    with pytest.raises(KeyboardInterrupt), session(Context()):
        pytest.fail("it went on")
    assert whole
    assert not torch.are_deterministic_algorithms_enabled()


def test_devices_are_found_by_their_numbers():
    torch = Fake("2.13")
    assert [library.device_for(torch, word) for word in ("auto", "cpu", "cuda:1")] == [
        "cuda:0", "cpu", "cuda:1",
    ]  # fmt: skip
    with pytest.raises(DataError, match="no cuda:2 on this machine: there are 2, from cuda:0 on"):
        library.device_for(torch, "cuda:2")


def test_a_device_that_is_not_there_is_told_apart_from_no_device(recbench, own):
    pytest.importorskip("torch", reason="PyTorch, an extra, is not installed")
    words = ["run", *own, "-m", "mult-dae[epochs=1]", "-k", "ndcg@5", "-o", "out"]
    absent = recbench(*words, "--device", "cuda:99")
    assert absent.exit_code == 3
    assert "PyTorch finds no cuda:99 on this machine" in absent.stderr
    for word in ("gpu", "cuda:x", ","):
        wrong = recbench(*words, "--device", word)
        assert wrong.exit_code == 2
        assert "is no device; give auto, cpu or a graphics processor" in wrong.stderr
    useless = recbench("run", *own, "-m", "ease", "--device", "cpu")
    assert useless.exit_code == 2
    assert "ease is none; leave it out" in useless.stderr


def test_what_a_session_sets_is_set_back():
    torch = pytest.importorskip("torch", reason="PyTorch, an extra, is not installed")

    def settings():
        return (
            torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(),
            torch.utils.deterministic.fill_uninitialized_memory,
        )  # fmt: skip

    before = settings()
    with session(Context(threads=3)) as device:
        assert (device.type, settings()) == ("cpu", (3, True, False))
    assert settings() == before
    with pytest.raises(DataError), session(Context(device="cuda:99")):
        pass
    assert settings() == before


def test_what_made_a_number_names_the_version_of_the_extra(monkeypatch):
    needs, none = MODELS.get("mult-vae"), MODELS.get("ease")
    versions = {"torch": "2.2"}
    monkeypatch.setattr(environment, "version", lambda name: versions.get(name, "1"))
    assert environment.describe(needs)["packages"]["torch"] == "2.2"
    assert "torch" not in environment.describe(none)["packages"]
    before = environment.code_digest(needs), environment.code_digest(none)
    versions["torch"] = "2.3"
    after = environment.code_digest(needs), environment.code_digest(none)
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_what_is_finished_needs_no_pytorch(request, recbench, own):
    pytest.importorskip("torch", reason="PyTorch, an extra, is not installed")
    words = ["run", *own, "-m", "mult-vae[epochs=1,code=3,hidden=4]", "-k", "ndcg@5", "-o", "out"]
    assert recbench(*words).exit_code == 0
    request.getfixturevalue("bare")
    again = recbench(*words)
    assert again.exit_code == 0, again.output
    assert "finished" in again.stderr
