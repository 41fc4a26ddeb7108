"""Migrations as people ask for them."""

import json
from typing import Any

import pytest

from sterna.model.migrations import MIGRATION_ENDED, MigrationPhase, MigrationRequest
from sterna.wire.manifests import read_migration
from sterna.wire.problems import InvalidDocument

Manifest = dict[str, Any]


def migration(**spec: Any) -> Manifest:
    return {
        "apiVersion": "sterna.dev/v1alpha1",
        "kind": "Migration",
        "metadata": {"name": "move-1", "namespace": "team", "uid": "u", "generation": 2, "managedFields": [{}]},
        "spec": spec,
        "status": {"phase": "Moving"},
    }


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"job": "mnist"}, {"job": "mnist"}, id="a whole job, anywhere"),
        pytest.param(
            {"job": "mnist", "kind": "TFJob", "worker": 0, "to": "node-2", "reason": "hot"},
            {"job": "mnist", "kind": "TFJob", "worker": 0, "to": "node-2", "reason": "hot"},
            id="one worker to a node",
        ),
        pytest.param({"node": "node-1", "reason": "repair"}, {"node": "node-1", "reason": "repair"}, id="a node"),
        pytest.param({"job": "mnist", "to": None}, {"job": "mnist"}, id="a key without a value is left out"),
    ],
)
def test_a_request_says_what_is_to_move(spec, expected):
    read = read_migration(migration(**spec))
    assert read == MigrationRequest(namespace="team", name="move-1", uid="u", generation=2, **expected)


@pytest.mark.parametrize(
    ("spec", "path", "expected"),
    [
        pytest.param({}, "spec.job", "the name of a job", id="nothing to move"),
        pytest.param({"job": "a", "node": "b"}, "spec.node", "either", id="both"),
        pytest.param({"node": "b", "to": "c"}, "spec.to", "the scheduler finds", id="a node to another"),
        pytest.param({"node": "b", "worker": 1}, "spec.worker", "the scheduler finds", id="a worker of a node"),
        pytest.param({"job": "a", "worker": -1}, "spec.worker", "0 or more", id="no such number"),
        pytest.param({"job": "a", "worker": "1"}, "spec.worker", "without quotes", id="a number in quotes"),
        pytest.param({"job": "a", "kind": "Job"}, "spec.kind", "TFJob", id="another kind"),
        pytest.param({"job": ""}, "spec.job", "at least 1", id="no name"),
        pytest.param({"job": "a", "target": "b"}, "spec.target", "known here", id="an unknown key"),
        pytest.param({"job": "a", "reason": "x" * 2000}, "spec.reason", "at most 1024", id="a long story"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_with_what_would_do(spec, path, expected):
    with pytest.raises(InvalidDocument) as caught:
        read_migration(migration(**spec))
    (problem,) = caught.value.problems
    assert problem.path == path
    assert expected in problem.expected


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({}, id="nothing"),
        pytest.param({**migration(job="a"), "kind": "TFJob"}, id="a job"),
        pytest.param({**migration(job="a"), "metadata": None}, id="without a name"),
        pytest.param({**migration(job="a"), "spec": json.loads("[" * 100 + "]" * 100)}, id="too deep"),
    ],
)
def test_r10_what_is_no_migration_is_refused(document):
    with pytest.raises(InvalidDocument):
        read_migration(document)


def test_three_of_the_phases_are_ends():
    assert {MigrationPhase.PENDING, MigrationPhase.MOVING} == set(MigrationPhase) - MIGRATION_ENDED
