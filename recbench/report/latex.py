"""A table for a paper: booktabs, marks, and a caption that says what they mean."""

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
        _line([escaped(name) for name in columns]),
        r"\midrule",
        *map(_line, rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ])  # fmt: skip


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
