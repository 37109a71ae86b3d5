"""The text of described things: `name[key=value,…]`, where a value may have brackets of its own."""

from recbench.errors import UsageError

SUCH = {"--grid": "l2=1,10,100", "label": "ease=EASE"}
"""Examples of pairs, by the kind of them."""


def taken_apart(text: str) -> tuple[str, dict[str, str]]:
    """Split `name[key=value,…]` into the name and the settings."""
    name, bracket, rest = text.strip().partition("[")
    if not name.strip() or "]" in name or (bracket and not rest.endswith("]")):
        raise UsageError(f"'{text}' is not NAME or NAME[key=value,...], such as ease[l2=10]")
    settings = [pair for pair in split_commas(rest[:-1]) if pair]
    return name.strip(), dict(pair_of(pair, "setting") for pair in settings)


def name_in(text: str) -> str:
    """The name in `name[key=value,…]`, and in that with a cutoff: `name[key=value,…]@20`."""
    return text.partition("[")[0].partition("@")[0].strip()


def split_commas(text: str) -> list[str]:
    """What stands between commas, empty or not; brackets keep theirs."""
    words, start, depth = list[str](), 0, 0
    for place, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            words.append(text[start:place])
            start = place + 1
    return [word.strip() for word in [*words, text[start:]]]


def pair_of(text: str, kind: str) -> tuple[str, str]:
    """Split `key=value`, refusing anything with an empty side; brackets keep their signs."""
    key, equals, value = (part.strip() for part in halves(text))
    if not (key and equals and value):
        such = SUCH.get(kind, "l2=10")
        raise UsageError(f"{kind} '{text}' is not KEY=VALUE, such as {such}")
    return key, value


def halves(text: str) -> tuple[str, str, str]:
    """What stands before and after the first equals sign that is not in brackets."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "=" and depth == 0:
            return text[:place], "=", text[place + 1 :]
    return text, "", ""
