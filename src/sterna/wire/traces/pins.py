"""Where jobs start, as a file: columns `job,role,ordinal,node`, a line for each worker. Written by one run, read by
another, so that both begin alike. Read whole or refused.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path

from sterna.model.errors import InvalidRequest
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Role
from sterna.wire.traces.trace_reading import header, opened

COLUMNS = ("job", "role", "ordinal", "node")
PINS_MAX = 1_000_000

Pins = Mapping[JobId, Mapping[tuple[Role, int], NodeId]]


def read_pins(path: str | Path) -> Pins:
    pins: dict[JobId, dict[tuple[Role, int], NodeId]] = {}
    with opened(Path(path), what="pins") as lines:
        reader = csv.reader(lines)
        columns = header(reader, what="pins")
        if tuple(columns) != COLUMNS:
            raise InvalidRequest(field="pins: columns", value=", ".join(columns), expected=", ".join(COLUMNS))
        try:
            for count, cells in enumerate(filter(None, reader)):
                if count >= PINS_MAX:
                    raise InvalidRequest(field="pins", value=f"line {reader.line_num}", expected=f"{PINS_MAX} at most")
                job_id, key, node = _pin(cells, where=f"pins: line {reader.line_num}")
                pins.setdefault(job_id, {})[key] = node
        except csv.Error as error:
            raise InvalidRequest(field="pins", value=f"line {reader.line_num}", expected=f"CSV ({error})") from error
    return pins


def _pin(cells: Iterable[str], *, where: str) -> tuple[JobId, tuple[Role, int], NodeId]:
    values = [cell.strip() for cell in cells]
    if len(values) != len(COLUMNS) or not all(values):
        raise InvalidRequest(field=where, value=",".join(values), expected=f"{len(COLUMNS)} cells, none of them empty")
    job, role, ordinal, node = values
    if role not in tuple(Role):
        raise InvalidRequest(field=f"{where}: role", value=role, expected="one of: " + ", ".join(Role))
    if not (ordinal.isascii() and ordinal.isdigit() and len(ordinal) < 10):
        raise InvalidRequest(field=f"{where}: ordinal", value=ordinal, expected="a whole number, at least 0")
    return JobId(job), (Role(role), int(ordinal)), NodeId(node)


def dump_pins(pins: Pins) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for job_id, nodes in pins.items():
        writer.writerows((job_id, role, ordinal, node) for (role, ordinal), node in nodes.items())
    return text.getvalue()
