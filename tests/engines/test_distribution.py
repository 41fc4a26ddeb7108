"""SpeCon's `distribution.csv`: its columns, its empty targets, and a file that outlives power cuts."""

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.engines.distribution import COLUMNS, DistributionFile
from sterna.model.considering import ConsideredMove
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Role, Worker
from sterna.model.why import Because, Why

HEADER = "time,job,orginal_node,to_node\n"


def looked_at(job: str, node: str, to: str = "") -> ConsideredMove:
    worker = Worker(Role.WORKER, 0, NodeId(node))
    return ConsideredMove("specon", JobId(job), worker, NodeId(to) if to else None, Because(Why.REBALANCED))


def read(path: Path) -> list[dict[str, str]]:
    """As a script made for SpeCon's file reads it."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_voda_37_the_file_parses_like_specon_s_and_keeps_empty_targets(tmp_path: Path):
    path = tmp_path / "distribution.csv"
    file = DistributionFile(path)
    file.write(1578177799.674656, [looked_at("job1", "node-1", "node-3")])
    file.write(1578177802.5349672, [looked_at("job2", "node-1"), looked_at("job4", "node-2")])
    file.write(1578177891.2359834, [looked_at("job3", "node-1", "node-2")])
    assert path.read_text() == (
        f"{HEADER}1578177799.674656,job1,node-1,node-3\n1578177802.5349672,job2,node-1,\n"
        "1578177802.5349672,job4,node-2,\n1578177891.2359834,job3,node-1,node-2\n"
    )
    rows = read(path)
    assert list(rows[0]) == ["time", "job", "orginal_node", "to_node"]
    moved = [(float(row["time"]), row["job"]) for row in rows if row["to_node"]]
    assert moved == [(1578177799.674656, "job1"), (1578177891.2359834, "job3")]
    assert [row["to_node"] for row in rows if row["job"] == "job2"] == [""]


def test_voda_37_a_restarted_scheduler_goes_on_under_the_same_header(tmp_path: Path):
    path = tmp_path / "logs" / "distribution.csv"
    DistributionFile(path).write(1.0, [looked_at("job1", "n1")])
    DistributionFile(path).write(2.0, [looked_at("job2", "n1", "n2")])
    assert path.read_text() == f"{HEADER}1.0,job1,n1,\n2.0,job2,n1,n2\n"


WHOLE = f"{HEADER}1.0,job1,n1,\n2.0,job2,n1,n2\n"


@given(kept=st.integers(min_value=0, max_value=len(WHOLE)))
def test_voda_37_a_line_that_a_kill_cut_short_is_never_read_as_a_row(
    kept: int, tmp_path_factory: pytest.TempPathFactory
):
    path = tmp_path_factory.mktemp("cut") / "distribution.csv"
    path.write_text(WHOLE[:kept])
    assert DistributionFile(path).write(3.0, [looked_at("job3", "n2")])
    text = path.read_text()
    assert text.startswith(HEADER)
    assert text.count("time,job") == 1
    rows = read(path)
    assert rows[-1] == {"time": "3.0", "job": "job3", "orginal_node": "n2", "to_node": ""}
    assert [row["job"] for row in rows[:-1]] == ["job1", "job2"][: len(rows) - 1]
    assert all(len(row) == len(COLUMNS) and None not in row.values() for row in rows)


def test_nothing_looked_at_writes_nothing(tmp_path: Path):
    path = tmp_path / "distribution.csv"
    assert DistributionFile(path).write(1.0, [])
    assert not path.exists()


def test_a_file_that_is_too_long_makes_room_and_one_of_before_is_kept(tmp_path: Path):
    path = tmp_path / "distribution.csv"
    file = DistributionFile(path, bytes_max=200)
    for second in range(100):
        file.write(float(second), [looked_at("job1", "n1")])
    older = tmp_path / "distribution.csv.1"
    assert sorted(found.name for found in tmp_path.iterdir()) == ["distribution.csv", "distribution.csv.1"]
    times = [float(row["time"]) for row in (*read(older), *read(path))]
    assert times == [float(second) for second in range(100 - len(times), 100)]
    assert path.stat().st_size <= 200
    assert older.stat().st_size <= 200


def test_a_disk_that_takes_nothing_harms_nobody_and_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path = tmp_path / "distribution.csv"
    path.mkdir()
    file = DistributionFile(path)
    assert not file.write(1.0, [looked_at("job1", "n1")])
    assert not file.write(2.0, [looked_at("job1", "n1")])
    assert [record.message for record in caplog.records] == ["the distribution file cannot be written"]
    path.rmdir()
    assert file.write(3.0, [looked_at("job1", "n1")])
    assert path.read_text() == f"{HEADER}3.0,job1,n1,\n"


def test_names_with_commas_and_quotes_come_back_as_they_were(tmp_path: Path):
    path = tmp_path / "distribution.csv"
    DistributionFile(path).write(1.5, [looked_at('a,"b"', "n1")])
    assert read(path) == [{"time": "1.5", "job": 'a,"b"', "orginal_node": "n1", "to_node": ""}]
