"""Two jobs train on one node, one of them converges: it is moved, goes on where it was, and the other gets faster.

Nothing is played: the models are trained, the nodes have the CPUs that they say, and the loss is what `specon` goes by.
"""

import csv
import json
import statistics
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from sterna.compose.decision_journals import replay_file
from sterna.interfaces.cli.main import cli
from tests.e2e.up import ROOT, Up, running

TRAINER = Path(__file__).with_name("numpy_trainer.py")
CPUS = "0.15"  # of a node: so little that a busy machine has it to spare, and only the node is what a job lacks
OPTIONS = (
    *("--nodes", "2", "--cpus-per-node", CPUS, "--rate-limit", "0.2s", "--rebalance", "specon"),
    *("--rebalance-set", "specon.round-s=1", "--rebalance-set", "judge.check-interval-s=1"),
)
SOON, STEADILY = 0.05, 0.0005  # learning rates: one is at its minimum in seconds, the other falls for a long time
STEPS = 200  # the latest, of which the median is taken
FASTER = 1.4
BLOCK = 10  # steps: the kernel hands out CPU in slices that are longer than a step
PATIENCE_S = 300.0


class Step(NamedTuple):
    incarnation: int
    pid: int
    step: int
    at_s: float
    loss: float


@pytest.mark.slow
def test_a_converged_job_makes_room_and_the_other_gets_faster(tmp_path):
    with running(tmp_path / "home", *OPTIONS) as engine:
        begin(engine, tmp_path)
        engine.until(lambda: moves(engine), "the converged job is moved", patience_s=PATIENCE_S)
        require_moved_well(engine, tmp_path)


@pytest.mark.slow
def test_the_same_with_the_engine_killed_in_between(tmp_path):
    with running(tmp_path / "home", *OPTIONS) as engine:
        begin(engine, tmp_path)
        engine.until(lambda: growth(engine, "settled")["evaluations"] >= 5, "some evaluations", patience_s=PATIENCE_S)
        seen = growth(engine, "settled")
        engine.kill()  # while its growth is being watched
        engine.start()
        again = growth(engine, "settled")
        assert again["metric"] == seen["metric"] == "loss"
        assert again["evaluations"] >= seen["evaluations"] - 6, "what was judged is written down every few seconds"
        engine.until(lambda: moves(engine, open_ones=True), "a move is under way", patience_s=PATIENCE_S)
        engine.kill()  # while it is being moved
        engine.start()
        engine.until(lambda: moves(engine), "the converged job is moved", patience_s=PATIENCE_S)
        require_moved_well(engine, tmp_path)


def begin(engine: Up, place: Path) -> None:
    """Both on node-1, which they only prefer: nothing keeps them there."""
    for name, rate in (("growing", STEADILY), ("settled", SOON)):
        engine.insist(partial(engine.client.submit, job(name, rate, place), cwd=str(place)))
    for name in ("growing", "settled"):
        engine.until(partial(trained, place / name), f"{name} trains", patience_s=PATIENCE_S)
        assert engine.job(name)["nodes"] == ["node-1"]


def require_moved_well(engine: Up, place: Path) -> None:
    move = moves(engine)[0]
    require_recorded(engine, move)
    require_no_step_lost(engine, place, move)
    engine.until(lambda: speed_up(place) > FASTER, f"the other is {FASTER} times as fast", patience_s=PATIENCE_S)
    require_no_step_lost(engine, place, move)
    require_replayable(engine)


def require_recorded(engine: Up, move: dict[str, Any]) -> None:
    """Migrations, events, the job itself and SpeCon's file all say so, in numbers."""
    assert (move["job"], move["from"], move["to"], move["phase"]) == (
        "default/settled",
        "node-1",
        "node-2",
        "Succeeded",
    )
    assert move["reason"] == "Converged"
    assert (move["rebalancer"], move["warm"], move["stepsLost"]) == ("specon", True, 0)
    assert move["expectedBenefitSeconds"] > 0
    assert move["downtimeSeconds"] > 0
    assert engine.job("settled")["nodes"] == ["node-2"]
    assert growth(engine, "settled")["category"] == "Converged"
    assert engine.job("growing")["migrations"] == 0
    events = engine.insist(lambda: engine.client.events("settled"))
    told = [
        event["reason"] for event in events if event["reason"] in ("Watching", "Converged", "Migrating", "Migrated")
    ]
    assert told[-4:] == ["Watching", "Converged", "Migrating", "Migrated"], told
    converged = next(event for event in reversed(events) if event["reason"] == "Converged")
    assert converged["data"]["score"] <= converged["data"]["threshold"] == 0.1
    assert converged["data"]["metric"] == "loss"
    with (engine.home / "distribution.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    moved = [row for row in rows if row["to_node"]]
    assert [(row["job"], row["orginal_node"], row["to_node"]) for row in moved] == [
        ("default/settled", "node-1", "node-2")
    ]
    measured = {node["name"]: node["measured"] for node in engine.insist(engine.client.nodes)}
    assert all(measured[name] is None or measured[name]["cpuMilli"] >= 0 for name in ("node-1", "node-2"))


def require_no_step_lost(engine: Up, place: Path, move: dict[str, Any]) -> None:
    """Every step once, in order, over both processes; the second begins where the first committed."""
    steps = trained(place / "settled")
    assert [row.step for row in steps] == list(range(len(steps)))
    first = [row for row in steps if row.incarnation == 1]
    second = [row for row in steps if row.incarnation == 2]
    assert len(second) > 0
    assert {row.incarnation for row in steps} == {1, 2}
    assert move["stepAfter"] == move["step"] == len(first)
    assert second[0].loss <= first[-1].loss + 1e-9, "its weights came along"
    others = trained(place / "growing")
    assert [row.step for row in others] == list(range(len(others)))


def speed_up(place: Path) -> float:
    """How many times faster the other's own steps are than while both trained on its node; 0: too few to tell.

    Two that share a node take twice as long. How busy the machine is otherwise decides how much of that is seen.
    """
    settled, growing = trained(place / "settled"), trained(place / "growing")
    here = [row.at_s for row in settled if row.incarnation == 1]
    gone_s = min(row.at_s for row in settled if row.incarnation == 2)
    before = block_s([row.at_s for row in growing if here[0] <= row.at_s <= here[-1]])
    after = block_s([row.at_s for row in growing if row.at_s > gone_s][-STEPS:])
    return before / after if before and after else 0.0


def require_replayable(engine: Up) -> None:
    """The decision to move it, made again from what was written down."""
    journals = sorted((engine.home / "journal").glob("*.jsonl"))
    decisions = [replayed for path in journals for replayed in replay_file(str(path))]
    assert decisions
    assert all(replayed.same for replayed in decisions)
    assert any("specon" in json.loads(path.read_text().splitlines()[0])["about"]["rebalance"] for path in journals)


def test_the_lists_show_growth_and_benefit(tmp_path):
    """In words, as people see them; of a job that never evaluates there is nothing to show."""
    with running(tmp_path / "home", *OPTIONS) as engine:
        engine.insist(lambda: engine.client.submit(job("growing", STEADILY, tmp_path), cwd=str(tmp_path)))
        engine.until(lambda: (engine.client.job("growing")["growth"] or {}).get("score"), "it is judged")
        home = str(engine.home)
        table = said("get", "jobs", "-o", "wide", "--home", home)
        assert "GROWTH" in table.splitlines()[0]
        assert "Progressing" in table
        described = said("describe", "growing", "--home", home)
        assert "Progressing" in next(line for line in described.splitlines() if line.startswith("Growth:"))
        assert "specon" in said("policy", "get", "--home", home)
        changed = said("policy", "set", "--rebalance", "none", "--home", home)
        assert "none: jobs are moved only" in changed
        assert engine.client.policy()["policy"] == "elastic-fifo"


def said(*words: str) -> str:
    result = CliRunner().invoke(cli, list(words))
    assert result.exit_code == 0, result.output
    return result.output


def job(name: str, rate: float, place: Path) -> str:
    preferred = {
        "weight": 1,
        "preference": {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}]},
    }
    pod = {
        "terminationGracePeriodSeconds": 60,
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}},
        "containers": [
            {
                "name": "trainer",
                "command": [sys.executable, str(TRAINER), str(rate), str(place / name)],
                "env": [{"name": "PYTHONPATH", "value": str(ROOT / "src")}],
                "resources": {"requests": {"cpu": "50m"}},
            }
        ],
    }
    spec = {"workers": {"min": 1, "max": 1}, "template": {"spec": pod}}
    return json.dumps(
        {"apiVersion": "sterna.dev/v1alpha1", "kind": "ElasticJob", "metadata": {"name": name}, "spec": spec}
    )


def trained(path: Path) -> list[Step]:
    if not path.exists():
        return []
    lines = path.read_text().splitlines()
    rows = [line.split() for line in lines if line.count(" ") == 4]
    return [Step(int(one), int(pid), int(step), float(at), float(loss)) for one, pid, step, at, loss in rows]


def block_s(moments: list[float]) -> float:
    """The median time of a step, over blocks of them; 0: there are too few."""
    marks = moments[::BLOCK]
    if len(marks) <= 8:
        return 0.0
    return statistics.median(later - earlier for earlier, later in pairwise(marks)) / BLOCK


def growth(engine: Up, name: str) -> dict[str, Any]:
    return dict(engine.job(name)["growth"] or {"evaluations": 0})


def moves(engine: Up, *, open_ones: bool = False) -> list[dict[str, Any]]:
    """Of either job, that are over; or that are not."""
    ended = ("Succeeded", "Failed", "Refused")
    return [move for move in engine.insist(engine.client.migrations) if (move["phase"] in ended) is not open_ones]
