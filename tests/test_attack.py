"""A short form of every attack of bench/attack, which makes as many tries as wanted."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
for folder in (ROOT, ROOT / "tests" / "data" / "readers"):
    sys.path.insert(0, str(folder))

from bench.attack.catalogues import Attack  # noqa: E402 - it is beside the tests, not in the package
from bench.attack.suite import (  # noqa: E402 - it is beside the tests, not in the package
    BAD,
    Said,
    Verdict,
    assault,
    dice_of,
    judged,
)

TRIES = {
    "files": 60, "flips": 60, "catalogues": 60, "plugins": 60, "readers": 120, "servers": 100,
    "environments": 12, "kills": 12,
}  # fmt: skip
"""A try of the last two is a process, which takes its time."""


def test_nothing_comes_of_a_few_tries(folder):
    attack = Attack()
    attack.set_up(folder)
    verdicts = [judged(attack, dice_of("catalogues", 1, number)) for number in range(6)]
    assert not [verdict for verdict in verdicts if verdict.word in BAD]


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIES)
def test_nor_of_more(name):
    words = ["--only", name, "--tries", str(TRIES[name]), "--seed", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "bench.attack", *words], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


class Bad:
    """What fails in every way, one after the other."""

    patience = 0.5

    def set_up(self, folder):
        self.acts = iter(["right", "raise", "hang", "leave"])

    def attempt(self, dice):
        import os
        import time

        number = dice.randrange(4)
        if number == 0:
            raise ZeroDivisionError
        if number == 1:
            time.sleep(20)
        if number == 2:
            os._exit(3)
        return Verdict("right")


@pytest.mark.slow
def test_whatever_happens_to_a_try_the_others_are_made():
    tally = assault(Bad, "bad", 12, seed=0)
    drawn = [dice_of("bad", 0, number).randrange(4) for number in range(12)]
    words = {0: "traceback", 1: "hang", 2: "killed", 3: "right"}
    assert tally.tries == 12
    assert {word: tally.verdicts[word] for word in words.values()} == {
        word: drawn.count(number) for number, word in words.items()
    }


@pytest.mark.parametrize(
    ("said", "word"),
    [
        (Said(0, "x", ""), "right"),
        (Said(0, "y", ""), "wrong"),
        (Said(0, "y", "it is damaged"), "told"),
        (Said(3, "", "Error: it is damaged"), "sentence"),
        (Said(3, "", ""), "wrong"),
        (Said(7, "", "Error: it is damaged"), "wrong"),
        (Said(3, "", "Error: \x1b[31m"), "wrong"),
        (Said(1, "", "", "KeyError: 'x'"), "traceback"),
    ],
)
def test_a_verdict_goes_by_what_was_said(said, word):
    assert said.verdict("", "x").word == word


def test_dice_are_the_same_again():
    assert dice_of("a", 0, 1).random() == dice_of("a", 0, 1).random()
    assert dice_of("a", 0, 1).random() != dice_of("a", 0, 2).random() != random.Random(0).random()
