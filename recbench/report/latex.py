"""A table for a paper: booktabs, marks, and a caption that says what they mean."""

from collections.abc import Sequence
from itertools import groupby

from recbench.report.tables import Cell, View, cells

ESCAPES = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "%": r"\%",
    "#": r"\#", "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    "–": "--", "±": r"$\pm$", "λ": r"$\lambda$", "σ": r"$\sigma$", "≤": r"$\leq$",
    "≥": r"$\geq$", "×": r"$\times$", "∞": r"$\infty$", "…": r"\ldots{}", "\n": " ",
}  # fmt: skip
HEAD = "% needs \\usepackage{booktabs}"
STRESS = {"bold": r"\textbf", "underlined": r"\underline"}


def latex(view: View) -> str:
    """The view as a table environment."""
    columns = cells(view)
    layout = "".join("r" if view.is_number(name) else "l" for name in columns)
    caption = " ".join(_sentence(words) for words in [view.title, *view.notes])
    rows = [
        [_cell(cell, position in view.marked) for cell in line]
        for position, line in enumerate(zip(*columns.values(), strict=True))
    ]
    return "\n".join([
        HEAD,
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escaped(caption)}}}",
        rf"\begin{{tabular}}{{{layout}}}",
        r"\toprule",
        *_heads(view, list(columns)),
        r"\midrule",
        *map(_line, rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ])  # fmt: skip


def _heads(view: View, columns: Sequence[str]) -> list[str]:
    """The names of the columns, below those of groups of them."""
    if not view.groups:
        return [_line([escaped(name) for name in columns])]
    group_of = {name: title for title, names in view.groups for name in names}
    above, rules, below = list[str](), list[str](), list[str]()
    for title, run in groupby(columns, key=lambda name: group_of.get(name, "")):
        names = list(run)
        first, last = len(below) + 1, len(below) + len(names)
        if title:
            above.append(rf"\multicolumn{{{len(names)}}}{{c}}{{{escaped(title)}}}")
            rules.append(rf"\cmidrule(lr){{{first}-{last}}}")
        else:
            above += [""] * len(names)
        below += [escaped(name.removeprefix(title).strip()) for name in names]
    return [_line(above), " ".join(rules), _line(below)]


def escaped(words: str) -> str:
    """Text that LaTeX sets as it stands."""
    return "".join(ESCAPES.get(letter, letter) for letter in words)


def _sentence(words: str) -> str:
    return words if words.endswith((".", ":")) else words + "."


def _line(texts: list[str]) -> str:
    return " & ".join(texts) + r" \\"


def _cell(cell: Cell, marked: bool) -> str:
    text = escaped(cell.text)
    if stress := cell.stress(marked):
        text = f"{STRESS[stress]}{{{text}}}"
    if cell.beside:
        text += rf" {{\scriptsize {escaped(cell.beside)}}}"
    return text + (rf"\textsuperscript{{{cell.better}}}" if cell.better else "")
