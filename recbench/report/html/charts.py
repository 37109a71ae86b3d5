"""Small charts as SVG text: lines, points and heat maps, coloured by the page around them.

Colours are CSS variables, so one chart serves dark, light and print. Every mark has a title that
a browser shows on hovering and a screen reader reads. What is drawn is there as a table, too.

A narrow screen shows a drawing at half its size and less, so the page enlarges its text there: the
room around the axes is for that size, and ticks of the class `spare` make way for others.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 92, 16, 12, 46
LETTER = 7.0
"""Pixels that a letter of a tick takes."""
LARGER = 1.6
"""How many times as large text is drawn on a narrow screen."""
MARKS = 20
"""Points of a line that are marked, about: more would hide it."""
SERIES = 8
"""How many colours the page defines, as --s0 to --s7."""

SPARE = ' class="spare"'

Point = tuple[float, float, str]
"""x, y and what to say about it."""


@dataclass(frozen=True)
class Data:
    """What a chart draws, as the lines of a table; the last column is the value."""

    columns: Sequence[str]
    lines: Sequence[Sequence[str | float]]


@dataclass(frozen=True)
class Chart:
    """A drawing, `WIDTH` wide; as text it is part of a page."""

    content: str
    label: str
    data: Data
    height: float = HEIGHT
    names: Sequence[str] = ()
    """The series in order of their colours, if there are several."""

    def __str__(self) -> str:
        return (
            f'<svg viewBox="0 0 {WIDTH} {self.height:.0f}" role="img" '
            f'aria-label="{escape(self.label)}">{self.content}</svg>{self._legend()}'
        )

    def _legend(self) -> str:
        items = "".join(
            f'<li><svg viewBox="0 0 12 12"><circle cx="6" cy="6" r="4.5" style="{marker(i)}"/>'
            f"</svg>{escape(name)}</li>"
            for i, name in enumerate(self.names)
        )
        return f'<ul class="legend">{items}</ul>' if items else ""


def colour(index: int) -> str:
    """The colour of a series, as the page or figure around it defines it."""
    return f"var(--s{index % SERIES})"


def marker(index: int) -> str:
    """How points of a series look: discs, and rings when the colours are used up."""
    look = "fill:none;stroke-width:2;stroke" if index // SERIES % 2 else "fill"
    return f"{look}:{colour(index)}"


@dataclass(frozen=True)
class Axis:
    """Maps values to pixels and knows round values to write beside the line."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def at(self, value: float) -> float:
        """The pixel of a value."""
        low, high, value = (self._scale(v) for v in (self.low, self.high, value))
        share = (value - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.stop - self.start)

    def _scale(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def ticks(self) -> list[float]:
        """Four to eight round values within the range."""
        if self.log:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            powers = [10.0**e for e in range(first, last + 1)]
            if len(powers) >= 2:
                return powers[:: max(1, len(powers) // 6)]
        if self.high <= self.low:
            return [self.low]
        rough = (self.high - self.low) / 5
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
        first = math.ceil(self.low / step - 1e-9)
        return [i * step for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


def spread(values: Sequence[float], start: float, stop: float, *, log: bool = False) -> Axis:
    """An axis over some values, with a little room at both ends."""
    low, high = min(values), max(values)
    if log:
        return Axis(low / 1.15, high * 1.15, start, stop, log=True)
    room = (high - low) * 0.06 or abs(high) * 0.05 or 1.0
    return Axis(low - room, high + room, start, stop)


def number(value: float) -> str:
    """A value as an axis writes it."""
    digits, exponent, power = f"{value:.4g}".partition("e")
    return f"{digits}e{int(power)}" if exponent else digits


def _below(y: float, places: Mapping[float, str]) -> str:
    """Ticks below an axis or a map: those that have room, and half of them on a narrow screen."""
    apart = min((b - a for a, b in pairwise(places)), default=0.0)
    needed = LETTER * (max(map(len, places.values())) + 1)
    every = math.ceil(needed / apart) if apart else 1
    crowded = LARGER * needed > apart * every
    return "".join(
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle"{SPARE * (crowded and i % 2)}>'
        f"{word}</text>"
        for i, (x, word) in enumerate([*places.items()][::every])
    )


def _frame(x: Axis, y: Axis, x_name: str, y_name: str) -> str:
    parts = [f'<g class="axis"><path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>']
    parts.append(_below(HEIGHT - BOTTOM + 16, {x.at(tick): number(tick) for tick in x.ticks()}))
    for tick in y.ticks():
        at = f"{y.at(tick):.1f}"
        parts.append(f'<path class="grid" d="M{LEFT} {at}H{WIDTH - RIGHT}"/>')
        parts.append(
            f'<text x="{LEFT - 6}" y="{at}" dy="4" text-anchor="end">{number(tick)}</text>'
        )
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_name)}</text>'
    )
    parts.append(
        f'<text transform="translate(15 {HEIGHT / 2 - 16}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_name)}</text></g>"
    )
    return "".join(parts)


def lines(
    series: Mapping[str, Sequence[Point]], x_name: str, y_name: str, *,
    log: bool = False, log_y: bool = False, joined: bool = True, front: bool = False,
    links: Mapping[Point, str] = {},
) -> Chart:  # fmt: skip
    """Points in one colour per series, joined by lines or not.

    A line of many points is marked at some of them. With `front`, a line goes along the points that
    no other beats in both: less x and more y. Points that have a link lead there.
    """
    points = [point for some in series.values() for point in some]
    log = log and min(point[0] for point in points) > 0
    x = spread([point[0] for point in points], LEFT + 8, WIDTH - RIGHT - 8, log=log)
    log_y = log_y and min(point[1] for point in points) > 0
    y = spread([point[1] for point in points], HEIGHT - BOTTOM, TOP, log=log_y)
    parts = [_frame(x, y, x_name, y_name)]
    if front:
        steps = "".join(f"H{x.at(a):.1f}V{y.at(b):.1f}" for a, b, _ in pareto(points))
        first = min(points, key=lambda point: (point[0], -point[1]))
        start = f"M{x.at(first[0]):.1f} {HEIGHT - BOTTOM}"
        parts.append(f'<path class="front" d="{start}{steps}H{WIDTH - RIGHT}"/>')
    for index, some in enumerate(series.values()):
        ordered = sorted(some)
        if joined and len(ordered) > 1:
            path = "L".join(f"{x.at(a):.1f} {y.at(b):.1f}" for a, b, _ in ordered)
            parts.append(f'<path class="line" style="stroke:{colour(index)}" d="M{path}"/>')
        marked = ordered[:: max(1, len(ordered) // MARKS)] if joined else ordered
        for point in marked:
            circle = (
                f'<circle cx="{x.at(point[0]):.1f}" cy="{y.at(point[1]):.1f}" r="4.5" '
                f'style="{marker(index)}"><title>{escape(point[2])}</title></circle>'
            )
            link = links.get(point)
            parts.append(f'<a href="{escape(link)}">{circle}</a>' if link else circle)
    names = list(series) if len(series) > 1 else []
    lines_of = [(name, p[2], p[0], p[1]) for name, some in series.items() for p in some]
    data = Data(("of", "point", x_name, y_name), lines_of)
    return Chart("".join(parts), f"{y_name} against {x_name}", data, names=names)


def pareto(points: Iterable[Point]) -> list[Point]:
    """The points that no other beats in both, from the cheapest to the best."""
    front: list[Point] = []
    for point in sorted(points, key=lambda point: (point[0], -point[1])):
        if not front or point[1] > front[-1][1]:
            front.append(point)
    return front


def heat(cells: Mapping[tuple[float, float], float], x_name: str, y_name: str, value: str) -> Chart:
    """One cell per pair of parameter values; the darker the better, the best one outlined."""
    columns, rows = (sorted({key[side] for key in cells}) for side in (0, 1))
    low, high = min(cells.values()), max(cells.values())
    wide = (WIDTH - LEFT - RIGHT) / len(columns)
    tall = min(34.0, wide)
    bottom = TOP + tall * len(rows)
    parts = []
    for (a, b), score in cells.items():
        share = (score - low) / (high - low) if high > low else 1.0
        best = ' class="best"' if score == high else ""
        parts.append(
            f'<rect{best} x="{LEFT + wide * columns.index(a):.1f}" '
            f'y="{bottom - tall * (rows.index(b) + 1):.1f}" '
            f'width="{wide - 1:.1f}" height="{tall - 1:.1f}" '
            f'style="fill:var(--s0);fill-opacity:{0.08 + 0.92 * share:.3f}">'
            f"<title>{escape(x_name)}={number(a)}, {escape(y_name)}={number(b)}: "
            f"{score:.5f}</title></rect>"
        )
    middles = {LEFT + wide * (i + 0.5): number(name) for i, name in enumerate(columns)}
    texts = [_below(bottom + 16, middles)]
    texts += [
        f'<text x="{LEFT - 6}" y="{bottom - tall * (i + 0.5) + 4:.1f}" text-anchor="end"'
        f"{SPARE * (tall < LARGER * LETTER * 2 and i % 2)}>{number(name)}</text>"
        for i, name in enumerate(rows)
    ]
    words = (
        f"{escape(x_name)} across, {escape(y_name)} up",
        f"{escape(value)} from {low:.4f} to {high:.4f}",
    )
    texts += [
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{bottom + 38 + 20 * i:.1f}" '
        f'text-anchor="middle">{text}</text>'
        for i, text in enumerate(words)
    ]
    content = "".join(parts) + f'<g class="axis">{"".join(texts)}</g>'
    data = Data((x_name, y_name, value), [(a, b, score) for (a, b), score in cells.items()])
    return Chart(content, f"{value} over {x_name} and {y_name}", data, bottom + 68)
