import pytest

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
