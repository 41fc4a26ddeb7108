"""Text in columns that line up, safe to print. Imports next to nothing: commands that only ask and print start fast."""

from collections.abc import Callable, Sequence

Emphasis = Callable[[str], str]

_CONTROL = {code: "�" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}


def plainly(words: str) -> str:
    return words


def aligned(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: int = 1,
    strong: Emphasis = plainly,
) -> str:
    """Columns under their heads: the first `left` to the left, the rest, numbers, to the right."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        parts = [
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(parts).rstrip()

    return "\n".join([strong(line(head)), *(line(row) for row in rows)])


def safe(words: object) -> str:
    """Text of a program or a manifest, control characters replaced, so that it cannot steer a terminal."""
    return str(words).translate(_CONTROL)


def one_line(words: object) -> str:
    return " ".join(safe(words).split())


def indented(text: str, by: int = 2) -> str:
    return "\n".join(" " * by + line if line else "" for line in text.splitlines())
