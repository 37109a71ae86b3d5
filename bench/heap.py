"""An epoch of models that go in rounds, with freed memory kept and as glibc has it of itself.

    python bench/heap.py [MODEL ...]

Each epoch is of Gowalla, in a process of its own with one thread; the two kinds take turns. What
keeps memory lets it be where the environment has anything to say of it, so an empty GLIBC_TUNABLES
is the way of glibc. Seconds are of the processor, those of the system apart: other work on the
machine touches them less. PyTorch's models need it.
"""

import json
import os
import resource
import subprocess
import sys

from als import GOWALLA, gowalla

from recbench.linalg import blas
from recbench.models.context import Context
from recbench.registry import MODELS, build

EPOCHS = [
    "dgcf[negatives=shared,drawn=512,batch=16384,rate=0.03,epochs=1]",
    "mult-vae[epochs=1]",
    "lightgcn[negatives=shared,drawn=1024,epochs=1]",
    "lightgcn+ssm[layers=1,factors=256,batch=512,epochs=1]",
]
TURNS = 2


def epoch(text: str) -> dict[str, float]:
    """What a fit takes."""
    train, model = gowalla(GOWALLA)[0], build(text, MODELS)
    before = resource.getrusage(resource.RUSAGE_SELF)
    with blas.loaded().limit(limits=1):
        model.fit(train, Context(threads=1))
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "user": after.ru_utime - before.ru_utime,
        "system": after.ru_stime - before.ru_stime,
        "faults": after.ru_minflt - before.ru_minflt,
        "peak": after.ru_maxrss / 2**20,
    }


def best(text: str, turns: list[dict[str, float]]) -> float:
    """Say what the faster of these took; return its seconds."""
    least = min(turns, key=lambda turn: turn["user"] + turn["system"])
    print(
        f"  {text:<10} {least['user']:6.1f} s and {least['system']:5.1f} s of the system, "
        f"{least['faults']:,.0f} faults, {least['peak']:.2f} GB"
    )
    return least["user"] + least["system"]


def main() -> None:
    """Print ratios, or be one of the processes."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(epoch(sys.argv[2])))
        return
    for text in sys.argv[1:] or EPOCHS:
        print(text)
        turns: dict[str, list[dict[str, float]]] = {"as it is": [], "kept": []}
        for _ in range(TURNS):
            for way, found in turns.items():
                env = os.environ | ({"GLIBC_TUNABLES": ""} if way == "as it is" else {})
                told = [sys.executable, __file__, "--one", text]
                done = subprocess.run(told, env=env, stdout=subprocess.PIPE, check=True)
                found.append(json.loads(done.stdout))
        taken = [best(way, found) for way, found in turns.items()]
        print(f"  ratio      {taken[0] / taken[1]:.2f}", flush=True)


if __name__ == "__main__":
    main()
