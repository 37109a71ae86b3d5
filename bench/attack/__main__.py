"""Attack recbench, and count what came of it.

    python -m bench.attack                                   # 1,000 tries of each
    python -m bench.attack --tries 10000 --seed 0 --only flips,files --csv attack.csv
    python -m bench.attack --only files --again 17           # one try once more, with what it said

Exit code 1 if an answer was wrong, without a sentence, or not there in 20 seconds.
"""

import argparse
import csv
import importlib
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT / "tests" / "data" / "readers", ROOT / "tests", ROOT):
    sys.path.insert(0, str(folder))

from bench.attack.suite import BAD, GOOD, Tally, assault, dice_of, judged, ready, table  # noqa: E402 - tests' files first

COST = {
    "flips": 1, "files": 1, "readers": 1, "servers": 1, "catalogues": 1, "plugins": 1,
    "environments": 1, "kills": 2.5,
}  # fmt: skip
"""The attacks, each with how many tries of others one of its own stands for: a campaign is killed
two and a half times on average."""


def tell(text: str) -> None:
    """Say it now: tries take long."""
    print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tries", type=int, default=1000, help="of each attack")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(COST), help="some of the attacks")
    parser.add_argument("--csv", type=Path, help="also write the table here")
    parser.add_argument("--again", type=int, metavar="N", help="only try number N, and say more")
    arguments = parser.parse_args()
    tallies = list[tuple[str, Tally]]()
    for name in arguments.only.split(","):
        make = importlib.import_module(f"bench.attack.{name}").Attack
        if arguments.again is not None:
            with tempfile.TemporaryDirectory() as home:
                attack = ready(make, Path(home))
                print(judged(attack, dice_of(name, arguments.seed, arguments.again)))
            continue
        tries = max(1, int(arguments.tries / COST[name]))
        tally = assault(make, name, tries, arguments.seed, tell)
        tallies.append((name, tally))
        print(table(tallies), flush=True)
    if arguments.csv:
        with arguments.csv.open("w", encoding="utf-8", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(["attack", "tries", *GOOD, *BAD])
            for name, tally in tallies:
                counts = [tally.verdicts[word] for word in (*GOOD, *BAD)]
                lines.writerow([name, tally.tries, *counts])
    raise SystemExit(1 if any(tally.failed for _, tally in tallies) else 0)


if __name__ == "__main__":
    main()
