"""A decision as people read it."""

import json
from pathlib import Path

import pytest
import yaml

from sterna.compose.simulation_requests import RulesRequest
from sterna.compose.snapshot_decision import decide_file
from sterna.interfaces.reports.decision import decision_text
from sterna.placement.strategies import placement
from sterna.planner.decide import decide
from sterna.policies.registry import ENTRIES, policy
from sterna.wire.decision_file import decision_record
from tests.worlds import cluster, job, node


def shown(**world) -> str:
    view = cluster(nodes=[node("n1", gpus=4), node("n2", gpus=4)], **world)
    return decision_text(view, decide(view, policy("fifo"), placement("packed")), policy="fifo")


def test_every_job_has_its_size_its_place_and_its_reason():
    text = shown(jobs=[job("a", needs=4, on=["n1"] * 4), job("b", needs=2, submitted_s=1), job("c", needs=9)])
    rows = {line.split()[0]: line for line in text.splitlines() if line[:2] in ("a ", "b ", "c ")}
    assert "n1 x4" in rows["a"]
    assert "NextInOrder: it was next" in rows["b"]
    assert "NeverFits" in rows["c"]


def test_steps_say_what_changes_and_when():
    text = shown(jobs=[job("a", at_least=1, at_most=4, on=["n1", "n1"]), job("b", needs=7, submitted_s=1)])
    assert "step 1, at once" in text
    assert "shrink a 2 -> 1 on n1" in text
    assert "grow b 0 -> 7 on n1 x3, n2 x4" in text


EXAMPLES = sorted((Path(__file__).parents[2] / "docs" / "examples").glob("*.yaml"))


@pytest.mark.parametrize("name", [entry.name for entry in ENTRIES])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_policy_has_a_size_and_a_reason_for_every_job_of_the_examples(example, name):
    view, decision = decide_file(str(example), RulesRequest(policy=name))
    lines = decision_text(view, decision, policy=name).splitlines()
    record = decision_record(view, decision)
    assert [told["job"] for told in record["jobs"]] == [job.id for job in view.jobs]
    for line, told in zip(lines[3:], record["jobs"], strict=False):
        words = line.split()
        assert (words[0], words[1], words[3]) == (told["job"], str(told["workersNow"]), str(told["workersNext"]))
        assert line.endswith(f"{told['why']}: {told['sentence']}")


@pytest.mark.parametrize("name", [entry.name for entry in ENTRIES])
def test_the_answer_does_not_depend_on_the_order_of_the_file(name, tmp_path):
    document = yaml.safe_load(EXAMPLES[-1].read_text(encoding="utf-8"))
    document["jobs"].reverse()
    document["nodes"].reverse()
    shuffled = tmp_path / "shuffled.json"
    shuffled.write_text(json.dumps(document))
    rules = RulesRequest(policy=name)
    answers = [json.dumps(decision_record(*decide_file(str(path), rules))) for path in (EXAMPLES[-1], shuffled)]
    assert answers[0] == answers[1]


def test_fixed_roles_and_shared_cards_are_told_apart():
    view = cluster(
        nodes=[node("n1", gpus=2)], jobs=[job("a", needs=1, ps=1, ps_cpus=1), job("b", gpus_each=0.5, needs=2)]
    )
    text = decision_text(view, decide(view, policy("fifo"), placement("packed")), policy="fifo")
    rows = {line.split()[0]: line for line in text.splitlines() if line[:2] in ("a ", "b ")}
    assert "n1, ps n1" in rows["a"]
    assert "n1/1 x2" in rows["b"]


def test_a_cluster_that_is_as_it_should_be_needs_nothing():
    assert "Nothing to do" in shown(jobs=[job("a", needs=4, on=["n1"] * 4)])


def test_a_cluster_without_jobs_is_answered_too():
    assert "0 jobs, 2 nodes" in shown()
