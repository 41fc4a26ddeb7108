"""Files that say where jobs start: read whole or refused with the line and what would do."""

import pytest

from sterna.model.errors import InvalidRequest
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Role
from sterna.wire.traces.pins import dump_pins, read_pins


def test_what_is_written_is_read_again(tmp_path):
    pins = {
        JobId("job-1"): {(Role.PS, 0): NodeId("a"), (Role.WORKER, 0): NodeId("a"), (Role.WORKER, 1): NodeId("b, 2")},
        JobId("job-2"): {(Role.WORKER, 0): NodeId("b")},
    }
    path = tmp_path / "pins.csv"
    path.write_text(dump_pins(pins))
    assert read_pins(path) == pins


@pytest.mark.parametrize(
    ("text", "field"),
    [
        pytest.param("", "pins", id="an empty file"),
        pytest.param("job,node\nj,a\n", "pins: columns", id="other columns"),
        pytest.param("job,role,ordinal,node\nj,worker,0\n", "pins: line 2", id="a cell is missing"),
        pytest.param("job,role,ordinal,node\nj,worker,0,\n", "pins: line 2", id="no node"),
        pytest.param("job,role,ordinal,node\nj,boss,0,a\n", "pins: line 2: role", id="no such role"),
        pytest.param("job,role,ordinal,node\nj,worker,-1,a\n", "pins: line 2: ordinal", id="a negative ordinal"),
        pytest.param("job,role,ordinal,node\nj,worker,nan,a\n", "pins: line 2: ordinal", id="no number"),
        pytest.param("job,role,ordinal,node\nj,worker," + "9" * 40 + ",a\n", "pins: line 2: ordinal", id="enormous"),
    ],
)
def test_a_bad_file_is_refused_with_what_is_wrong(tmp_path, text, field):
    path = tmp_path / "pins.csv"
    path.write_text(text)
    with pytest.raises(InvalidRequest) as refused:
        read_pins(path)
    assert refused.value.field == field


def test_a_file_that_is_not_there_is_the_askers_mistake(tmp_path):
    with pytest.raises(InvalidRequest, match="pins"):
        read_pins(tmp_path / "nothing.csv")
