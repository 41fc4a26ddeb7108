"""What the environment may say about limits, and how much the process itself allows."""

import resource

import pytest

from sterna.connections import Limits, limits_from
from sterna.model.errors import InvalidRequest


def test_what_is_not_named_stays():
    changed = limits_from({"STERNA_HTTP_LIMITS": "head_s=2.5, connections=100"}, Limits(idle_s=7.0))
    assert (changed.head_s, changed.connections, changed.idle_s) == (2.5, 100, 7.0)
    assert limits_from({}) == Limits()


@pytest.mark.parametrize(
    "text", ["head=1", "head_s", "head_s=", "head_s=-1", "connections=1.5", "idle_s=nan", "body_s=inf"]
)
def test_a_mistake_is_told_with_what_would_do(text):
    with pytest.raises(InvalidRequest, match="STERNA_HTTP_LIMITS"):
        limits_from({"STERNA_HTTP_LIMITS": text})


@pytest.mark.parametrize(("files", "connections", "per_address"), [(1024, 256, 64), (128, 32, 32), (20, 8, 8)])
def test_connections_leave_files_for_everything_else(monkeypatch, files, connections, per_address):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    within = Limits().within_files()
    assert (within.connections, within.per_address) == (connections, per_address)
