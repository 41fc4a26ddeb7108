"""One text, several documents: cut where YAML says, without changing a letter of them."""

import re
from typing import Any, NamedTuple

from sterna.model.errors import InvalidRequest
from sterna.wire.document_limits import decoded_text, read_document

DOCUMENTS_MAX = 500
VALUES_MAX = 20_000  # of one document, whatever its aliases stand for: a job of many roles has some hundreds
VALUES_IN_ALL_MAX = 60_000

# Neither marker may begin a line inside a document, not even in the middle of a quoted text, so this cuts exactly.
_MARKER = re.compile(r"^(?:---|\.\.\.)(?=[ \t\r\n]|\Z)", re.MULTILINE)


class Cut(NamedTuple):
    number: int  # from 1, of those that say anything
    text: str  # as it was written, its marker included
    first_line: int

    @property
    def name(self) -> str:
        return f"document {self.number}"

    @property
    def body(self) -> str:
        return _body(self.text).lstrip("\r\n")

    def value(self, *, values_max: int) -> Any:
        return read_document(self.text, name=self.name, values_max=values_max, first_line=self.first_line)


def cut(text: str | bytes) -> list[Cut]:
    """The documents that say something. Comments alone say nothing."""
    whole = decoded_text(text, name="manifest").removeprefix("\ufeff")
    starts = [0, *(found.start() for found in _MARKER.finditer(whole))]
    documents: list[Cut] = []
    line = 1
    for start, end in zip(starts, [*starts[1:], len(whole)], strict=True):
        part = whole[start:end]
        if _says_something(part):
            if len(documents) == DOCUMENTS_MAX:
                raise InvalidRequest(field="manifest", value="more", expected=f"at most {DOCUMENTS_MAX} documents")
            documents.append(Cut(len(documents) + 1, part, line))
        line += part.count("\n")
    if not documents:
        raise InvalidRequest(field="manifest", value="no document", expected="at least one job")
    return documents


def size_of(value: Any) -> int:
    """How many values it is, those that aliases stand for counted each time."""
    size, level = 0, [value]
    while level:
        size += len(level)
        inner = [one for one in level if isinstance(one, dict | list)]
        level = [child for one in inner for child in (one.values() if isinstance(one, dict) else one)]
    return size


def _body(part: str) -> str:
    return part[3:] if _MARKER.match(part) else part


def _says_something(part: str) -> bool:
    lines = (line.strip() for line in _body(part).splitlines())
    return any(line and not line.startswith(("#", "%")) for line in lines)
