"""The papers' large tables end to end, on made-up data of their exact sizes.

    python bench/full_size.py                              # all of them: two hours on two cores
    python bench/full_size.py --only msd                   # the whole linear table of one
    python bench/full_size.py --only msd --share 1/8,1/4,1/2,1      # and how its steps grow

The data are `synthetic:like=NAME` in a Parquet file, so they are read as a file of one's own. Then
`recbench run` is started in a process of its own for every kind of model, all into one results
folder, and `recbench show` compares the winners user by user. Steps are those that the manifest of
a run has; `all of it` is the whole process as the kernel counts it. Peak memory is that of the
process while it was at the step.

A share is one of users, items, interactions and held-out users alike. So a user has as many items
as in full, and an item as many users, as in a smaller shop of the same kind. What has to look at
every interaction, or at every pair of items that a user has, is linear in the share. Scores of
users x items and cells of a Gram matrix are quadratic, and an inverse is cubic. Tables of growth
have the power of the share with which a step grew between the last two, beside that of its work.
"""

import argparse
import csv
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

LINEAR = ("ease", "ease-debiased", "rlae", "dlae", "edlae", "rdlae", "deql", "deql-l2",
          "deql-l2-zero")  # fmt: skip
BY_EFFECT = ("deql-l2", "deql-l2-zero")
"""Models whose penalty is given as λ', so that a grid over b costs one inverse."""
POWERS = {
    "make": 1, "read": 1, "split": 1, "diagonal": 1, "sweeps": 1, "metrics": 1, "record": 1,
    "per-user tests": 1, "Gram matrix": 2, "decomposition": 2, "ranking": 2, "inverse": 3,
}  # fmt: skip
"""The power of the share with which the work of a step grows, where its operations are known."""
GB = 1e9
LAST = 20
"""Lines of a log that are shown of a program that failed."""


@dataclass(frozen=True)
class Table:
    """What is run on one dataset, which has the sizes that the catalogue says."""

    split: str
    heldout: int
    """Users held out for each part; 0: none are, but interactions."""
    runs: dict[str, tuple[str, ...]]
    """What is typed for each kind of model."""
    sizes: dict[str, int] = field(default_factory=dict)

    def part(self, sizes: Mapping[str, int], share: Fraction, kinds: str | None) -> "Table":
        """The table of smaller data of the same kind, with these runs alone."""
        kept = kinds.split(",") if kinds else self.runs
        return Table(
            self.split,
            round(self.heldout * share),
            {name: typed for name, typed in self.runs.items() if name in kept},
            {name: round(size * share) for name, size in sizes.items()},
        )

    @property
    def typed_split(self) -> str:
        """The split as it is typed."""
        return f"{self.split}[heldout={self.heldout}]" if self.heldout else self.split

    @property
    def typed_sizes(self) -> str:
        """The sizes as they are typed."""
        return ",".join(f"{name}={size}" for name, size in self.sizes.items())


def models(*names: str) -> tuple[str, ...]:
    """So many `-m`."""
    return tuple(word for name in names for word in ("-m", name))


def linear(p: float, l2: float) -> tuple[str, ...]:
    """All nine linear autoencoders at one dropout and penalty, nine values of b."""
    penalties = [
        f"{name}.{'l2-effective' if name in BY_EFFECT else 'l2'}={l2:g}"
        for name in LINEAR
        if name != "deql"
    ]
    sets = [word for penalty in [f"p={p}", *penalties] for word in ("--set", penalty)]
    return (*models("popularity", *LINEAR), "--grid", "b=0.1:2.0", *sets)


TABLES = {
    "ml-20m": Table("strong", 10_000, {
        "linear": linear(0.3, 1000),
        "low rank": (*models("lr-edlae-1", "lrr", "regularized-pca"), "--grid", "k=100:1000:100",
                     "--set", "p=0.3", "--set", "lr-edlae-1.l2=1000", "--set", "lrr.l2=1000"),
        "factors": (*models("ials", "wrmf"), "--set", "factors=128", "--set", "iterations=10"),
    }),
    "msd": Table("strong", 50_000, {
        "linear": linear(0.5, 30),
        "factors": (*models("ials"), "--set", "factors=256", "--set", "iterations=4"),
    }),
    "amazon-book": Table("user-ratio", 0, {
        "linear": linear(0.5, 100),
        "factors": (*models("ials"), "--set", "factors=128", "--set", "iterations=10"),
    }),
    "netflix": Table("strong", 40_000, {
        "low rank": (*models("lr-edlae-1"), "--grid", "k=100:3000:100",
                     "--set", "p=0.35", "--set", "l2=1100"),
        "linear": linear(0.35, 1100),
    }),
    "steam": Table("user-ratio", 0, {
        "linear": linear(0.5, 100),
        "factors": (*models("wrmf", "rg2", "rgx", "ials"), "--set", "factors=64",
                    "--set", "iterations=30"),
    }),
    "simplewiki": Table("user-ratio", 0, {
        "factors": (*models("popularity", "ials", "rg2"), "--set", "factors=64",
                    "--set", "iterations=10"),
        "sparse": (*models("ease-sparse"), "--set", "support=100", "--set", "looks=1"),
    }),
    "gowalla": Table("user-ratio", 0, {
        "factors": (*models("ials"), "--set", "factors=256", "--set", "iterations=4"),
    }),
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """What one step took."""

    table: str
    share: str
    run: str
    step: str
    times: int
    seconds: float
    processor_seconds: float
    peak_gb: float
    disk_gb: float | None = None
    """Of what was written, where something was."""


def started(command: Sequence[str], log: Path) -> Line:
    """Run a program to its end; what all of it took."""
    begun = time.perf_counter()
    with log.open("a") as file:
        print("$", *command, file=file, flush=True)
        process = subprocess.Popen(command, stdout=file, stderr=file)
        _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begun
    if status:
        raise SystemExit("\n".join([*log.read_text().splitlines()[-LAST:], "failed: see above"]))
    processor = usage.ru_utime + usage.ru_stime
    return Line("", "", "", "all of it", 1, seconds, processor, usage.ru_maxrss * 1024 / GB)


def size_of(path: Path) -> float:
    """Gigabytes of a file, or of all files of a folder; nothing is none."""
    files = [path, *path.rglob("*")]
    return sum(file.stat().st_size for file in files if file.is_file()) / GB


def last_run(results: Path) -> dict[str, Any]:
    """What the manifest of a folder says of the last run into it."""
    runs: list[dict[str, Any]] = json.loads((results / "manifest.json").read_text())["runs"]
    return runs[-1]


def steps_of(run: dict[str, Any]) -> Iterator[Line]:
    """What a run noted of its steps."""
    for name, spent in run["steps"].items():
        yield Line(
            "", "", "", name, spent["times"], spent["seconds"], spent["processor_seconds"],
            spent["peak_bytes"] / GB,
        )  # fmt: skip


def measured(table: Table, folder: Path) -> Iterator[Line]:
    """Make the data, run everything on them, compare the winners."""
    data, results, log = folder / "data.parquet", folder / "results", folder / "log"
    made = started([sys.executable, __file__, "--write", str(data), table.typed_sizes], log)
    yield replace(made, run="data", step="make", disk_gb=size_of(data))
    recbench = [sys.executable, "-m", "recbench"]
    for name, words in table.runs.items():
        before = size_of(results)
        typed = ["run", "--data", str(data), "--split", table.typed_split, *words]
        whole = started([*recbench, *typed, "-v", "-o", str(results)], log)
        noted = last_run(results)
        for line in steps_of(noted):
            yield replace(line, run=name)
        peak = noted["peak_memory_bytes"] / GB  # the kernel was made to forget it between steps
        yield replace(whole, run=name, peak_gb=peak, disk_gb=size_of(results) - before)
    tested = started([*recbench, "show", str(results), "--format", "csv"], log)
    yield replace(tested, run="show", step="per-user tests")


def write_data(path: Path, sizes: str) -> None:
    """Make interactions up and write them down."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from recbench.data.synthetic import generate, parse

    data = generate(parse(f"synthetic:{sizes}"))
    pq.write_table(pa.table({"user": data.user, "item": data.item}), path)


def print_step(line: Line, *, first: bool) -> None:
    """A row of the table of one dataset at one share, below its head if it is the first."""
    if first:
        print("| run | step | times | wall s | processor s | peak GB | disk GB |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
    disk = "" if line.disk_gb is None else f"{line.disk_gb:.2f}"
    print(
        f"| {line.run} | {line.step} | {line.times} | {line.seconds:,.1f} | "
        f"{line.processor_seconds:,.1f} | {line.peak_gb:.2f} | {disk} |",
        flush=True,
    )


def print_growth(lines: Sequence[Line]) -> None:
    """Seconds of processors of every step at every share, and how it grew in the end."""
    shares = sorted({line.share for line in lines}, key=Fraction)
    found = {(line.run, line.step, line.share): line.processor_seconds for line in lines}
    print(f"| run | step | {' | '.join(shares)} | power | of the work |")
    print(f"| --- | --- |{' --- |' * len(shares)} --- | --- |")
    larger = math.log(Fraction(shares[-1]) / Fraction(shares[-2]))
    for run, step in dict.fromkeys((line.run, line.step) for line in lines):
        took = [found.get((run, step, share), math.nan) for share in shares]
        power = math.log(took[-1] / took[-2]) / larger if min(took[-2:]) > 0 else math.nan
        values = " | ".join("–" if math.isnan(value) else f"{value:,.2f}" for value in took)
        print(f"| {run} | {step} | {values} | {power:.1f} | {POWERS.get(step, '')} |")


def keep(path: Path, line: Line) -> None:
    """Append a line to a csv."""
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, [one.name for one in fields(Line)])
        if new:
            writer.writeheader()
        writer.writerow(asdict(line))


def kept(path: Path) -> list[Line]:
    """The lines of a csv; of what was measured again, the last."""
    with path.open(newline="") as file:
        rows = [
            Line(
                row["table"], row["share"], row["run"], row["step"], int(row["times"]),
                float(row["seconds"]), float(row["processor_seconds"]), float(row["peak_gb"]),
                float(row["disk_gb"]) if row["disk_gb"] else None,
            )
            for row in csv.DictReader(file)
        ]  # fmt: skip
    return [*{(row.table, row.share, row.run, row.step): row for row in rows}.values()]


@contextmanager
def room(kept_in: Path | None, name: str) -> Iterator[Path]:
    """A new folder: one of this name that stays, or one for the meantime."""
    if kept_in is None:
        with tempfile.TemporaryDirectory(prefix="full-size-") as folder:
            yield Path(folder)
    else:
        (kept_in / name).mkdir(parents=True)  # results that are there would be found finished
        yield kept_in / name


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = ",".join(TABLES)
    parser.add_argument("--only", default=names, help=f"datasets, separated by commas: {names}")
    parser.add_argument(
        "--share", default="1", help="of every size, such as 1/8; several by commas"
    )
    parser.add_argument("--runs", help="only these kinds of models, separated by commas")
    parser.add_argument("--csv", type=Path, help="append every line to this file")
    parser.add_argument("--growth", type=Path, help="measure nothing; growth from such a file")
    parser.add_argument("--folder", type=Path, help="keep data, results and logs in this folder")
    parser.add_argument("--write", nargs=2, metavar=("FILE", "SIZES"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write_data(Path(options.write[0]), options.write[1])
        return
    from recbench.data.open import sizes_of

    for name in options.only.split(","):
        lines = [one for one in kept(options.growth) if one.table == name] if options.growth else []
        for share in [] if options.growth else map(Fraction, options.share.split(",")):
            table = TABLES[name].part(sizes_of(name), share, options.runs)
            print(f"\n{name}, {share} of it: {table.typed_sizes}; {table.typed_split}\n")
            with room(options.folder, f"{name}-{share}".replace("/", "-of-")) as folder:
                for number, line in enumerate(measured(table, folder)):
                    lines.append(replace(line, table=name, share=str(share)))
                    print_step(lines[-1], first=number == 0)
                    if options.csv:
                        keep(options.csv, lines[-1])
        if len({line.share for line in lines}) > 1:
            print(f"\n{name}, seconds of processors by share\n")
            print_growth(lines)


if __name__ == "__main__":
    main()
