"""Sentences: of sane length, and nothing in them speaks to the terminal."""

from recbench.errors import printable, reason_of


def test_what_others_say_is_made_printable():
    assert printable("a\x1b[31mb\tc\nd\x00\x7f ä") == "a?[31mb\tc\nd?? ä"


def test_words_without_end_are_cut():
    assert printable(f"it is {'a' * 5000} no") == f"it is {'a' * 60}… no"
    path = "/".join(["folder"] * 60)
    assert printable(path) == path


def test_an_error_without_a_text_still_has_a_kind():
    class Odd(Exception):
        __str__ = None

    assert reason_of(Odd("x")) == "Odd: "
    assert reason_of(ValueError("x\x1b")) == "ValueError: x?"
