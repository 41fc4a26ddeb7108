"""Requirements on labels mean what kube-scheduler takes them to mean."""

import pytest

from sterna.model.ids import NodeId
from sterna.model.node_affinity import NODE_NAME, LabelOperator, LabelRequirement, NodeTerm, all_terms, matches
from sterna.model.nodes import Node, NodeDemands
from sterna.model.resources import Resources

LABELS = {"zone": "a", "cpus": "8", "empty": "", "huge": "9" * 30}


@pytest.mark.parametrize(
    ("key", "operator", "values", "holds"),
    [
        pytest.param("zone", "In", ["b", "a"], True, id="In: one of the values"),
        pytest.param("zone", "In", ["b"], False, id="In: none of the values"),
        pytest.param("disk", "In", [""], False, id="In: a label that is not there has no value, not the empty one"),
        pytest.param("empty", "In", [""], True, id="In: the empty value"),
        pytest.param("zone", "NotIn", ["b"], True, id="NotIn: another value"),
        pytest.param("zone", "NotIn", ["a", "b"], False, id="NotIn: one of the values"),
        pytest.param("disk", "NotIn", ["ssd"], True, id="NotIn: holds without the label"),
        pytest.param("empty", "Exists", [], True, id="Exists: whatever its value"),
        pytest.param("disk", "Exists", [], False, id="Exists: not there"),
        pytest.param("disk", "DoesNotExist", [], True, id="DoesNotExist: not there"),
        pytest.param("empty", "DoesNotExist", [], False, id="DoesNotExist: there, though empty"),
        pytest.param("cpus", "Gt", ["7"], True, id="Gt: more"),
        pytest.param("cpus", "Gt", ["8"], False, id="Gt: as much is not more"),
        pytest.param("cpus", "Gt", ["10"], False, id="Gt: numbers are compared, not texts"),
        pytest.param("cpus", "Lt", ["10"], True, id="Lt: less"),
        pytest.param("cpus", "Lt", ["8"], False, id="Lt: as much is not less"),
        pytest.param("zone", "Gt", ["0"], False, id="Gt: a word is no number"),
        pytest.param("disk", "Lt", ["0"], False, id="Lt: not there"),
        pytest.param("huge", "Gt", ["0"], False, id="Gt: a number beyond 64 bits is none"),
        pytest.param(NODE_NAME, "In", ["n1"], True, id="the node's own name"),
        pytest.param(NODE_NAME, "NotIn", ["n1"], False, id="not this node"),
    ],
)
def test_a_requirement_holds(key, operator, values, holds):
    term = (LabelRequirement(key, LabelOperator(operator), tuple(values)),)
    assert matches(term, "n1", LABELS) is holds


ZONE_A = LabelRequirement("zone", LabelOperator.IN, ("a",))
ZONE_B = LabelRequirement("zone", LabelOperator.IN, ("b",))
BIG = LabelRequirement("cpus", LabelOperator.GREATER, ("7",))
SMALL = LabelRequirement("cpus", LabelOperator.LESS, ("8",))


@pytest.mark.parametrize(
    ("terms", "admitted"),
    [
        pytest.param((), True, id="no terms, no demand"),
        pytest.param(((ZONE_A, BIG),), True, id="all of a term hold"),
        pytest.param(((ZONE_A, SMALL),), False, id="one of a term does not"),
        pytest.param(((ZONE_B,), (BIG,)), True, id="one of two alternatives is enough"),
        pytest.param(((ZONE_B,), (SMALL,)), False, id="none of two alternatives"),
        pytest.param(((),), False, id="an empty term matches no node"),
    ],
)
def test_a_node_admits_a_worker_by_its_terms(terms: tuple[NodeTerm, ...], admitted: bool):
    node = Node(id=NodeId("n1"), allocatable=Resources(8000), labels=tuple(sorted(LABELS.items())))
    assert node.admits(NodeDemands(terms=terms)) is admitted


@pytest.mark.parametrize(
    ("left", "right", "together"),
    [
        pytest.param((), (), (), id="no demand on either side"),
        pytest.param(((ZONE_A,),), (), ((ZONE_A,),), id="one side alone"),
        pytest.param(((ZONE_A,), (ZONE_B,)), ((BIG,),), ((ZONE_A, BIG), (ZONE_B, BIG)), id="every pair"),
        pytest.param(((),), ((BIG,),), ((),), id="what matches nothing still matches nothing"),
    ],
)
def test_demands_of_two_sides_hold_together(left, right, together):
    assert all_terms(left, right) == together
