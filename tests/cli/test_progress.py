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
        "inverse: 10 of 30 (33%)",
        "inverse: 20 of 30 (67%)",
        "inverse: 30 of 30 (100%)",
    ]


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
