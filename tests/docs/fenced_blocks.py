"""Commands in documents: every fenced `sh` block of a page, and the reason why one is not run, where there is one.

A block that cannot be run has a comment on the line before it: `<!-- not run: because ... -->`.
"""

import re
from pathlib import Path
from typing import NamedTuple

_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]*?) -->\n)?^```sh\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


class Block(NamedTuple):
    line: int
    text: str
    not_run: str  # why; empty: it is run


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    found = [
        Block(text[: match.start("text")].count("\n") + 1, match["text"], match["reason"] or "")
        for match in _BLOCK.finditer(text)
    ]
    assert len(found) == len(re.findall(r"^```sh$", text, re.MULTILINE)), f"a block of {page.name} is not closed"
    return found
