"""One decision about a snapshot that stands in a file: what `sterna decide` asks."""

import sys
from contextlib import nullcontext

from sterna.compose.chosen_rules import chosen_rules
from sterna.compose.simulation_requests import RulesRequest
from sterna.lifecycle.rule_names import split_settings
from sterna.model.errors import InvalidRequest
from sterna.model.plan import Decision
from sterna.model.snapshot import Snapshot
from sterna.wire.document_limits import SNAPSHOT_BYTES_MAX
from sterna.wire.snapshot_file import load_snapshot


def decide_file(path: str, request: RulesRequest) -> tuple[Snapshot, Decision]:
    """What the core does with the snapshot in this file; `-` reads standard input."""
    judging, _ = split_settings(request.rebalance.settings)
    if judging:
        expected = "settings of rebalancers: how growth was judged, the snapshot says"
        raise InvalidRequest(field="rebalance settings", value=f"judge.{next(iter(judging))}", expected=expected)
    rules = chosen_rules(request)
    view = load_snapshot(_content(path))
    return view, rules.decide(view)


def _content(path: str) -> bytes:
    """At most a byte more than may be read: enough to be refused, however long the file is."""
    try:
        with nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb") as source:
            return source.read(SNAPSHOT_BYTES_MAX + 1)
    except OSError as error:
        expected = f"a file that can be read ({error.strerror})"
        raise InvalidRequest(field="snapshot", value=path, expected=expected) from None
