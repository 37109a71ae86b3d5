import threading

import pytest

import toys
from recbench.cli.common import Bars


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets."""
    now = [0.0]
    monkeypatch.setattr("recbench.cli.common.time.monotonic", lambda: now[0])
    return now


def test_without_a_terminal_progress_is_a_line_now_and_then(capsys, clock):
    with Bars() as bars:
        for second in range(31):
            clock[0] = second
            bars("inverse", second, 30)
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "inverse: 10 of 30 (33%), 1.0 s each, 20 s left",
        "inverse: 20 of 30 (67%), 1.0 s each, 10 s left",
        "inverse: 30 of 30 (100%), 1.0 s each",
    ]


def test_time_left_is_by_what_was_seen_since_a_fit_went_on_or_began_anew(capsys, clock):
    with Bars() as bars:
        for second, epoch in [(0, 30), (20, 34), (60, 1), (90, 3), (400, 40)]:
            clock[0] = second
            bars("mf epochs", epoch, 40)
    assert capsys.readouterr().err.splitlines() == [
        "mf epochs: 34 of 40 (85%), 5.0 s each, 30 s left",
        "mf epochs: 1 of 40 (2%)",
        "mf epochs: 3 of 40 (8%), 15.0 s each, 9 min left",
        "mf epochs: 40 of 40 (100%), 8.7 s each",
    ]


def test_steps_that_are_many_are_not_timed_one_by_one(capsys, clock):
    with Bars() as bars:
        bars("ranking", 0, 30_000)
        clock[0] = 10.0
        bars("ranking", 10_000, 30_000)
    assert capsys.readouterr().err == "ranking: 10,000 of 30,000 (33%), 20 s left\n"


def test_quiet_is_quiet(capsys, clock):
    with Bars(enabled=False) as bars:
        clock[0] = 99.0
        bars("trials", 1, 2)
    assert capsys.readouterr().err == ""


def test_at_a_terminal_there_is_a_bar(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with Bars() as bars:
        bars("trials", 1, 2)
        bars("trials", 2, 2)
        bars("download", 5, 0)
    assert "trials" in capsys.readouterr().err


def test_a_bar_begins_where_the_work_does(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with Bars() as bars:
        bars("mf epochs", 30, 40)
        (bar,) = bars._bars.values()
        assert (bar.initial, bar.n) == (30, 30)  # what was done before took no time
        bars("mf epochs", 1, 40)
        (bar,) = bars._bars.values()
        assert (bar.initial, bar.n) == (1, 1)


def test_what_is_at_work_is_named_while_it_says_nothing_of_itself(capsys, clock):
    with Bars() as bars:
        bars.at_work(["ials[l2=0.1]"])
        for clock[0] in (5.0, 10.0, 15.0, 20.0):
            bars.beat()
        bars.at_work(["ials[l2=0.1]", "ease"])
        clock[0] = 34.0
        bars.beat()
        bars.at_work([])
        clock[0] = 60.0
        bars.beat()
    assert capsys.readouterr().err.splitlines() == [
        "at work: ials[l2=0.1] for 10 s",
        "at work: ials[l2=0.1] for 20 s",
        "at work: ials[l2=0.1] for 34 s; ease for 14 s",
    ]


def test_of_many_at_work_some_are_named(capsys, clock):
    with Bars() as bars:
        bars.at_work([f"ease[l2={l2}]" for l2 in range(7)])
        clock[0] = 12.0
        bars.beat()
    said = capsys.readouterr().err
    assert said.count("ease") == 4
    assert said.endswith("; 3 more\n")


def test_before_steps_are_counted_the_trial_that_makes_them_is_named_once(capsys, clock):
    with Bars() as bars:
        bars.at_work(["ials[l2=0.1]"])
        for second in range(0, 31, 10):
            clock[0] = float(second)
            bars("ials sweeps", second, 50)
            bars.beat()
    assert capsys.readouterr().err.splitlines() == [
        "at work: ials[l2=0.1] for 10 s",
        "ials sweeps: 10 of 50 (20%), 1.0 s each, 40 s left",
        "ials sweeps: 20 of 50 (40%), 1.0 s each, 30 s left",
        "ials sweeps: 30 of 50 (60%), 1.0 s each, 20 s left",
    ]


def test_steps_of_many_seconds_are_counted_between_the_names(capsys, clock):
    with Bars() as bars:
        bars.at_work(["mult-vae"])
        bars("mult-vae epochs", 0, 4)
        for clock[0] in (10.0, 15.0, 20.0, 25.0, 30.0):
            if clock[0] % 15:
                bars.beat()
            else:
                bars("mult-vae epochs", int(clock[0] // 15), 4)
    assert capsys.readouterr().err.splitlines() == [
        "at work: mult-vae for 10 s",
        "mult-vae epochs: 1 of 4 (25%), 15.0 s each, 45 s left",
        "at work: mult-vae for 25 s",
        "mult-vae epochs: 2 of 4 (50%), 15.0 s each, 30 s left",
    ]


def test_at_a_terminal_the_bar_names_it(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with Bars() as bars:
        bars("trials", 0, 2)
        bars.at_work(["ials[l2=0.1]"])
    assert "ials[l2=0.1]" in capsys.readouterr().err


def test_the_one_who_names_ends_with_the_bars_and_never_begins_in_silence():
    before = threading.active_count()
    with Bars(enabled=False) as bars:
        bars.at_work(["ease"])
        assert threading.active_count() == before
    with Bars() as bars:
        bars.at_work(["ease"])
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


def test_a_reader_who_is_gone_ends_the_naming_without_a_word(capsys, monkeypatch):
    def gone(self):
        raise BrokenPipeError

    monkeypatch.setattr("recbench.cli.common.BEAT", 0.001)
    monkeypatch.setattr(Bars, "beat", gone)
    with Bars() as bars:
        bars.at_work(["ease"])
        bars._heart.join(5.0)
        assert not bars._heart.is_alive()
    assert capsys.readouterr().err == ""


class Told(Bars):
    """Every word that a run says of its progress."""

    words: list[object]

    def __call__(self, what, done, total):
        if what in ("trials", "winners on test"):
            self.words.append((what, done, total))

    def at_work(self, names):
        self.words.append([*names])


@pytest.fixture
def told(monkeypatch) -> list[object]:
    """What the next run tells."""
    Told.words = []
    monkeypatch.setattr("recbench.cli.run.Bars", Told)
    return Told.words


def test_a_run_names_each_fit_before_it_begins_and_counts_what_takes_time(
    recbench, own, told, folder
):
    words = ["-m", "ease", "-m", "ials[iterations=2,factors=4]", "-k", "ndcg@10", "-o", "out"]
    assert recbench("run", *own, *words, "--grid", "ease.l2=1,10").exit_code == 0
    ials = "ials[factors=4,iterations=2]"
    assert told == [
        ("trials", 0, 3), ["ease[l2=1]"], [], ("trials", 1, 3), ["ease[l2=10]"], [],
        ("trials", 2, 3), [ials], [], ("trials", 3, 3),
    ]  # fmt: skip
    del told[:]
    assert recbench("run", *own, *words, "--grid", "ease.l2=1,10,30").exit_code == 0
    # What was found tells no rate.
    assert told[:4] == [("trials", 0, 1), ["ease[l2=30]"], [], ("trials", 1, 1)]


def test_what_there_is_no_time_for_tells_no_rate_either(recbench, own, told, folder):
    grid = ["--grid", "l2=1,10,30,100", "--time-limit", "0.000001s"]
    assert recbench("run", *own, "-m", "ease", *grid).exit_code == 0
    assert [word for word in told if word[:1] == ("trials",)][-1] == ("trials", 1, 1)


def test_fits_that_are_shared_and_those_for_the_test_say_so(recbench, dated, told):
    assert recbench("run", *dated, "-m", "deql-l2", "--grid", "b=0.25,0.5,1").exit_code == 0
    named = [word[0] for word in told if isinstance(word, list) and word]
    shared = "deql-l2[b=0.25,l2-effective=10] and 2 more"
    assert named[0] == shared
    assert named[1].endswith("] for the test")
    assert told[-1] == ("winners on test", 1, 1)


@pytest.mark.slow
def test_of_other_processes_it_is_told_what_each_was_given(recbench, own, folder, told):
    (folder / "fragile.py").write_text(toys.FAILING)
    words = ["--plugin", "fragile.py", "-m", "fragile", "--grid", "x=4,5,6", "-j", "2"]
    assert recbench("run", *own, *words).exit_code == 0
    assert ["fragile[x=4]", "fragile[x=5]"] in told
