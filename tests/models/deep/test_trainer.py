"""Training by PyTorch: repeatable, resumable, sparing with memory, the same on any device."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch", reason="PyTorch, an extra, is not installed")

from recbench.errors import RecbenchError, UsageError
from recbench.linalg import blas
from recbench.models.base import fit_together
from recbench.models.checkpoint import Checkpoint
from recbench.models.context import Context
from recbench.models.contract import example, fit, scores
from recbench.models.deep.nets.autoencoders import Autoencoder
from recbench.models.deep.nets.trainer import PARTS, Compiled, Descent, Epochs, Place
from recbench.registry import MODELS, build

SMALL = {
    "mult-dae": "mult-dae[code=3,batch=16,l2=0.001,epochs={}]",
    "mult-vae": "mult-vae[code=3,hidden=5,batch=16,anneal=10,epochs={}]",
    "cdae": "cdae[code=3,batch=16,epochs={}]",
    "neumf": "neumf[factors=4,batch=64,epochs={}]",
}
each = pytest.mark.parametrize("name", SMALL)


def made(name, epochs=3):
    return build(SMALL[name].format(epochs), MODELS)


def fitted(name, ctx, epochs=3):
    (scorer,) = fit_together([made(name, epochs)], example(), ctx)
    if isinstance(scorer, RecbenchError):
        raise scorer
    return scorer


@each
def test_a_seed_repeats_bit_by_bit_whatever_the_threads(name):
    first, again, threaded, other = (
        scores(fit(made(name), example(), seed, threads), example())
        for seed, threads in ((1, 1), (1, 1), (1, 2), (2, 1))
    )
    assert first.tobytes() == again.tobytes() == threaded.tobytes()
    assert not np.allclose(first, other)


@each
def test_a_grid_over_epochs_is_one_fit(name):
    models = [made(name, epochs) for epochs in (1, 3, 2)]
    assert len({model.family.key(model) for model in models}) == 1
    together = fit_together(models, example(), Context(threads=1, dtype=np.float64))
    assert [fit.rounds for fit in together] == [1, 3, 2]
    for model, scorer in zip(models, together, strict=True):
        alone = scores(fit(model, example()), example())
        assert scores(scorer, example()).tobytes() == alone.tobytes()


@each
def test_a_fit_that_was_killed_ends_in_the_same_bytes(name, tmp_path, monkeypatch):
    monkeypatch.setattr("recbench.models.checkpoint.FIRST", 0.0)
    monkeypatch.setattr("recbench.models.checkpoint.SHARE", float("inf"))
    whole = fitted(name, Context(threads=1))
    steps = Epochs.advance

    def dies(self, number):
        if number == 2:
            raise KeyboardInterrupt
        return steps(self, number)

    monkeypatch.setattr(Epochs, "advance", dies)
    saved = Checkpoint(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        fitted(name, Context(threads=1, checkpoint=saved))
    begun = []
    monkeypatch.setattr(Epochs, "advance", lambda self, n: begun.append(n) or steps(self, n))
    resumed = fitted(name, Context(threads=1, checkpoint=saved))
    assert begun == [2, 3]
    assert [line["loss"] for line in resumed.trace] == [line["loss"] for line in whole.trace]
    assert scores(resumed, example()).tobytes() == scores(whole, example()).tobytes()


@each
def test_the_loss_falls_and_tastes_are_told_apart(name):
    text = SMALL[name].replace("epochs={}", "epochs=25,rate=0.03")
    model = build(text, MODELS)
    scorer = fit(model, example())
    assert scorer.trace[-1]["loss"] < scorer.trace[0]["loss"]
    block = scores(scorer, example())
    even = np.arange(block.shape[1]) % 2 == 0
    margin = block[::2][:, even].mean() - block[::2][:, ~even].mean()
    assert margin > 0 > block[1::2][:, even].mean() - block[1::2][:, ~even].mean()


@pytest.mark.parametrize("name", ["mult-dae", "neumf"])
def test_patience_goes_back_to_the_best(name):
    told = iter([0.1, 0.3, 0.2, 0.1, 0.1])
    model = build(SMALL[name].replace("epochs={}", "epochs=9,patience=2"), MODELS)
    stopped = model.fit(example(), Context(threads=1, validate=lambda scorer: next(told)))
    assert (stopped.rounds, len(stopped.trace)) == (2, 4)
    two = scores(fitted(name, Context(threads=1), 2), example())
    assert scores(stopped, example()).tobytes() == two.tobytes()


def give_memory_for(rows, error, monkeypatch):
    """Have steps of more rows fail, once they have drawn some numbers."""
    loss = Autoencoder.loss

    def short(net, part, now):
        given = loss(net, part, now)
        if len(part) > rows:
            raise error
        return given

    monkeypatch.setattr(Autoencoder, "loss", short)


ERRORS = [
    torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"),
    MemoryError("Unable to allocate 93.8 MiB for an array with shape (40981, 600)"),
]


@pytest.mark.parametrize("error", ERRORS, ids=["a graphics processor", "here", "NumPy"])
def test_what_does_not_fit_is_done_in_parts_and_said(monkeypatch, error):
    text = "mult-dae[code=3,batch=16,dropout=0,l2=0.001,epochs=3]"
    whole, said = fit(build(text, MODELS), example()), []
    give_memory_for(4, error, monkeypatch)
    ctx = Context(threads=1, dtype=np.float64, progress=lambda *words: said.append(words))
    parts = build(text, MODELS).fit(example(), ctx)
    assert parts.facts == {PARTS: 4}
    assert ("mult-dae: too little memory, so a step in 4 parts", 1, 1) in said
    close = np.allclose(scores(parts, example()), scores(whole, example()), rtol=1e-6, atol=1e-9)
    assert close, "a step in parts is another one"


def test_what_does_not_even_fit_in_parts_is_a_sentence(monkeypatch):
    give_memory_for(0, ERRORS[0], monkeypatch)
    with pytest.raises(
        RecbenchError, match="too little memory for a step of mult-dae on cpu, even"
    ):
        fitted("mult-dae", Context(threads=1))


def test_a_net_that_does_not_fit_is_a_sentence(monkeypatch):
    def short(*words):
        raise ERRORS[0]

    monkeypatch.setattr(Place, "xavier", short)
    with pytest.raises(RecbenchError, match="too little memory for mult-dae on cpu; take narrower"):
        fitted("mult-dae", Context(threads=1))


def test_other_errors_are_let_through(monkeypatch):
    give_memory_for(0, RuntimeError("shapes do not match"), monkeypatch)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        fitted("mult-dae", Context(threads=1))


def test_what_does_not_fit_is_refused_before_anything_is_made():
    with pytest.raises(RecbenchError, match=r"training [\d,]+ numbers for 40 users and 12 items"):
        build("mult-dae[code=160]", MODELS).fit(example(), Context(memory=1000))


@pytest.mark.parametrize("text", ["mult-dae[batch={}]", "neumf[batch={}]"])
def test_a_step_takes_no_more_than_there_is(text):
    train = example()
    one, many = (build(text.format(batch), MODELS) for batch in (train.nnz, 10**9))
    assert one.numbers(train) == many.numbers(train)


def test_auto_encoders_say_beforehand_what_they_compute():
    models = [made("mult-vae", epochs) for epochs in (2, 5)]
    assert models[0].family.operations(models, example(), Context()) == 6 * 40 * 12 * 5 * 5
    assert models[0].family.operations([made("neumf")], example(), Context()) is None


def test_numbers_that_grow_beyond_all_bounds_are_told():
    model = build("mult-dae[code=3,l2=1e30,rate=1e30,epochs=9]", MODELS)
    with pytest.raises(RecbenchError, match=r"not finite in epoch \d, with rate 1e\+30; give a sm"):
        model.fit(example(), Context(threads=1))


def test_on_another_device_adam_is_the_same():
    rng = np.random.default_rng(5)
    start = torch.tensor(rng.standard_normal((6, 3)), dtype=torch.float32)
    ours, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
    with blas.workers() as pool:
        here, there = Compiled(ours, pool), Descent(theirs)
        for number in range(5):
            gradient = torch.tensor(rng.standard_normal((6, 3)), dtype=torch.float32)
            if number == 3:
                rows = torch.tensor([[0, 4, 0]])
                gradient = torch.sparse_coo_tensor(
                    rows, gradient[:3], (6, 3), check_invariants=True
                )
                there.restore({name: array.copy() for name, array in here.state().items()})
            here.step(gradient, 0.1)
            there.step(gradient, 0.1)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    for name, array in here.state().items():
        np.testing.assert_allclose(there.state()[name], array, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "text",
    ["mult-dae[dropout=1]", "mult-vae[epochs=0]", "cdae[batch=0]", "neumf[layers=0]",
     "neumf[factors=0]", "mult-vae[anneal=0]", "mult-dae[rate=0]", "cdae[likelihood=normal]"],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(text):
    with pytest.raises(UsageError):
        build(text, MODELS)


def test_nobody_and_nothing():
    for shape in ((3, 4), (1, 1)):
        nothing = sparse.csr_array(shape, dtype=np.float32)
        for name in SMALL:
            block = scores(fit(made(name, 1), nothing), nothing)
            assert np.isfinite(block).all()


@pytest.mark.slow
def test_kill_nine_and_the_same_command_end_in_the_same_numbers(tmp_path):
    eager = "from recbench.models import checkpoint\ncheckpoint.FIRST = 0.0\n"
    (tmp_path / "eager.py").write_text(eager)
    words = [
        sys.executable, "-m", "recbench", "run", "--threads", "1", "--plugin", "eager.py",
        "-m", "mult-vae[epochs=40]", "-d", "synthetic:users=1000,items=200,interactions=20000",
        "--split", "strong", "-k", "ndcg@20",
    ]  # fmt: skip
    subprocess.run([*words, "-o", "whole"], cwd=tmp_path, check=True, capture_output=True)
    running = subprocess.Popen([*words, "-o", "cut"], cwd=tmp_path, stderr=subprocess.DEVNULL)
    limit = time.monotonic() + 120
    while not list((tmp_path / "cut").rglob("now.npz")) and time.monotonic() < limit:
        time.sleep(0.01)
    assert running.poll() is None, "it ended before anything was saved"
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    subprocess.run([*words, "-o", "cut"], cwd=tmp_path, check=True, capture_output=True)
    logs = [(tmp_path / folder / "trials.jsonl").read_text() for folder in ("whole", "cut")]
    found = [[json.loads(line)["metrics"] for line in log.splitlines()] for log in logs]
    assert found[0] == found[1]
