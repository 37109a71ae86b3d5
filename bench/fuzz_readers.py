"""Damaged files for every reader: each must be read, or refused with one DataError.

    python bench/fuzz_readers.py                 # 20,000 files
    python bench/fuzz_readers.py --count 100000 --seed 7 --only yelp,wikipedia

Faithful files are damaged with seeded dice (bits turned, ends cut, pieces moved, numbers made
huge, lines made long) and read in a process of their own, with limits on time and memory. Files
that do worse than a refusal are kept in --keep, under the seed that makes them again.
"""

import argparse
import importlib
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "data" / "readers"))

import raw

from recbench.data.readers.archive import Limits
from recbench.errors import DataError

LIMITS = Limits(max_bytes=1 << 28, max_line=1 << 20)
SECONDS = 20
MEGABYTES = 1024
"""What one reading may take beyond what the process has before it starts."""

LONGEST_SENTENCE = 600


@dataclass
class Tally:
    """What became of the files of one layout."""

    verdicts: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    largest: float = 0.0


def memory(key: str) -> int:
    """Megabytes of this process, as the kernel counts them."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition(f"{key}:")[2].split()[0]) >> 10


def read_once(sample: raw.Sample, paths: list[Path]) -> str:
    """Read in this process; say 'read', 'refused', or what else happened."""
    read = importlib.import_module(f"recbench.data.readers.{sample.reader.replace('-', '_')}").read
    try:
        rows = read(paths, sample.options, LIMITS)
    except DataError as error:
        text = str(error)
        wrong = "\n" in text or len(text) > LONGEST_SENTENCE or not text.isprintable()
        return f"no sentence: {text[:200]!r}" if wrong else "refused"
    except BaseException as error:  # noqa: BLE001 - the point is to see what escapes
        return f"{type(error).__name__}: {str(error)[:200]}"
    return "read" if len(rows) else "read without rows"


def in_child(sample: raw.Sample, paths: list[Path]) -> tuple[str, int]:
    """Read in a child with limits; return the verdict and the megabytes it took."""
    source, sink = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(SECONDS)
        start = memory("VmRSS")
        most = (memory("VmSize") + MEGABYTES) << 20
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        verdict = read_once(sample, paths)
        os.write(sink, f"{memory('VmHWM') - start} {verdict}".encode())
        os._exit(0)
    os.close(sink)
    with os.fdopen(source, encoding="utf-8") as stream:
        grown, _, verdict = stream.read().partition(" ")
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return ("too slow" if name == "SIGALRM" else f"killed by {name}"), 0
    return verdict, int(grown)


def fuzz(name: str, count: int, seed: int, keep: Path) -> Tally:
    """Damage and read the files of one layout."""
    sample, tally = raw.SAMPLES[name], Tally()
    with tempfile.TemporaryDirectory() as folder:
        if read_once(sample, sample.write(Path(folder))) != "read":  # and compile everything
            raise SystemExit(f"{name}: the faithful files are not read")
        for number in range(count):
            files = sample.damaged(random.Random(f"{name} {seed} {number}"))
            paths = raw.put(files, Path(folder))
            start = time.perf_counter()
            verdict, grown = in_child(sample, paths)
            tally.slowest = max(tally.slowest, time.perf_counter() - start)
            tally.largest = max(tally.largest, grown)
            good = verdict in ("read", "refused")
            tally.verdicts[verdict if good else "wrong"] += 1
            if not good:
                print(f"  {name} {number}: {verdict}", flush=True)
                (keep / f"{name}-{seed}-{number}").mkdir(parents=True, exist_ok=True)
                raw.put(files, keep / f"{name}-{seed}-{number}")
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=20_000, help="files in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(raw.SAMPLES), help="some of the layouts")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"))
    arguments = parser.parse_args()
    names = arguments.only.split(",")
    total: Counter[str] = Counter()
    for name in names:
        tally = fuzz(name, -(-arguments.count // len(names)), arguments.seed, arguments.keep)
        total += tally.verdicts
        counts = "  ".join(
            f"{word} {tally.verdicts[word]:>6,}" for word in ("read", "refused", "wrong")
        )
        print(
            f"{name:18} {counts}  slowest {tally.slowest:5.2f} s  most {tally.largest:4} MB",
            flush=True,
        )
    print(f"{sum(total.values()):,} files: {total['read']:,} read, {total['refused']:,} refused, "
          f"{total['wrong']:,} wrong")  # fmt: skip
    raise SystemExit(1 if total["wrong"] else 0)


if __name__ == "__main__":
    main()
