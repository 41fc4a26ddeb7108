"""Marked blocks: generated text inside pages that people write. Everything outside the marks stays as it is."""

from collections.abc import Sequence

from sterna.model.errors import InvalidRequest


def filled(page: str, name: str, content: str) -> str:
    """The page with the block of this name replaced. A page without such a block is a mistake, not a page to skip."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    head, found, rest = page.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise InvalidRequest(field="block", value=name, expected=f"a page with the lines {begin} and {end}")
    return f"{head}{begin}\n{content.strip()}\n{end}{tail}"


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table; bars in cells are escaped."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)
