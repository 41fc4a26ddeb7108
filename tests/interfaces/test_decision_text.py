"""A decision as people read it."""

from sterna.interfaces.reports.decision import decision_text
from sterna.placement.strategies import placement
from sterna.planner.decide import decide
from sterna.policies.registry import policy
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


def test_a_cluster_that_is_as_it_should_be_needs_nothing():
    assert "Nothing to do" in shown(jobs=[job("a", needs=4, on=["n1"] * 4)])


def test_a_cluster_without_jobs_is_answered_too():
    assert "0 jobs, 2 nodes" in shown()
