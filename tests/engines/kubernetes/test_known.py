"""Which of two jobs of the same name is the older one."""

import json
from typing import Any

import msgspec
import pytest

from sterna.engines.kubernetes.apiserver.objects import JobObject
from sterna.engines.kubernetes.apiserver.port import ELASTIC_JOBS
from sterna.engines.kubernetes.world.job_index import KnownJob


def known(uid: str, *, made: str, taken_in: str = "") -> KnownJob:
    metadata = {"name": "twin", "namespace": "ns", "uid": uid, "creationTimestamp": made}
    status: dict[str, Any] = {"scheduling": {"enqueuedAt": taken_in}} if taken_in else {}
    text = json.dumps({"metadata": metadata, "spec": {}, "status": status})
    return KnownJob(ELASTIC_JOBS, msgspec.json.decode(text, type=JobObject))


@pytest.mark.parametrize(
    ("older", "younger"),
    [
        pytest.param({"made": "2026-01-01T00:00:00Z"}, {"made": "2026-01-01T00:00:01Z"}, id="made a second earlier"),
        pytest.param(
            {"made": "2026-01-01T00:00:00Z", "taken_in": "2026-01-01T00:00:00.9Z"},
            {"made": "2026-01-01T00:00:00Z"},
            id="made in the same second, and only one was taken in",
        ),
        pytest.param(
            {"made": "2026-01-01T00:00:00Z", "taken_in": "2026-01-01T00:00:00.4Z"},
            {"made": "2026-01-01T00:00:00Z", "taken_in": "2026-01-01T00:00:00.5Z"},
            id="made in the same second, taken in earlier",
        ),
    ],
)
def test_the_older_one_whatever_their_uids(older, younger):
    for uids in ("ab", "ba"):
        assert known(uids[0], **older).order < known(uids[1], **younger).order
