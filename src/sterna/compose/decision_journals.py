"""Journals of decisions as text: written while a simulation runs, and decided again with what their first line says."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sterna import __version__
from sterna.compose.chosen_rules import chosen_rules
from sterna.compose.simulation_requests import RebalanceRequest, RulesRequest
from sterna.journal.journal import Shapes, TextJournal
from sterna.journal.replay import Entry, Replayed, read_journal, replay
from sterna.lifecycle.rule_names import split_settings
from sterna.model.errors import InvalidRequest
from sterna.model.snapshot import Snapshot
from sterna.wire.decision_file import decision_record, event_record, outcome_record
from sterna.wire.document_limits import check_document
from sterna.wire.snapshot_file import snapshot_document, snapshot_of
from sterna.wire.traces.trace_reading import opened

SHAPES = Shapes(snapshot=snapshot_document, decision=decision_record, outcome=outcome_record, event=event_record)

_LINE_MAX = 1 << 26  # one line holds a whole snapshot and its decision


def text_journal(request: RulesRequest, sink: Callable[[str], object]) -> TextJournal:
    """A journal as text. It opens with all that deciding again depends on beside the snapshots."""
    chosen = chosen_rules(request).policy
    about = {
        "sterna": __version__,
        "policy": chosen.name,
        "settings": dict(request.settings),
        "placement": request.placement or chosen.placement,
        "starvingAfterSeconds": request.starving_after_s,
        "idleCpuShare": request.idle_cpu_share,
        "rebalance": list(request.rebalance.names),
        "rebalanceSettings": dict(request.rebalance.settings),
    }
    return TextJournal(sink, SHAPES, about=about)


def replay_file(path: str, *, passed_over: Callable[[Entry], None] = lambda _: None) -> Iterator[Replayed]:
    """Every decision of a text journal, made again with what its first line says; `-` reads standard input.

    `passed_over` is told of what cannot be decided again, and of places where entries were dropped.
    """
    with opened(Path("/dev/stdin" if path == "-" else path), what="journal", line_max=_LINE_MAX) as lines:
        yield from replay_lines(lines, passed_over=passed_over)


def replay_lines(lines: Iterable[str], *, passed_over: Callable[[Entry], None] = lambda _: None) -> Iterator[Replayed]:
    """Files of a journal may follow each other: what opens one holds from there on."""
    entries = read_journal(lines)
    rules = chosen_rules(_as_recorded(next(entries, None)))

    def following() -> Iterator[Entry]:
        nonlocal rules
        for entry in entries:
            rules = chosen_rules(_as_recorded(entry)) if entry.kind == "opened" else rules
            yield entry

    yield from replay(
        following(),
        read_snapshot=_snapshot,
        decide=lambda view: rules.decide(view),
        shape=decision_record,
        passed_over=passed_over,
    )


def _as_recorded(first: Entry | None) -> RulesRequest:
    about = first.parts.get("about") if first is not None and first.kind == "opened" else None
    if not isinstance(about, dict) or not isinstance(settings := about.get("settings", {}), dict):
        raise InvalidRequest(
            field="journal line 1", value=about, expected="what opens a journal: policy, settings, ..."
        )
    return RulesRequest(
        policy=str(about.get("policy")),
        settings=_texts(settings),
        placement=str(about["placement"]) if about.get("placement") else None,
        starving_after_s=_number(about, "starvingAfterSeconds"),
        idle_cpu_share=_number(about, "idleCpuShare"),
        rebalance=_rebalance(about),
    )


def _number(about: Mapping[str, Any], key: str) -> float | None:
    said = about.get(key)
    if type(said) not in (int, float, type(None)):
        raise InvalidRequest(field=f"journal line 1: {key}", value=said, expected="a number, or null")
    return said


def _rebalance(about: Mapping[str, Any]) -> RebalanceRequest:
    """Journals that were written before there were rebalancers name none. How growth was judged, the snapshots say."""
    names, settings = about.get("rebalance") or [], about.get("rebalanceSettings") or {}
    if not isinstance(names, list) or not isinstance(settings, dict):
        field = "journal line 1: rebalance"
        raise InvalidRequest(field=field, value=names, expected="a list of names, and rebalanceSettings an object")
    _, own = split_settings(_texts(settings))
    return RebalanceRequest(names=tuple(str(name) for name in names), settings=own)


def _texts(settings: Mapping[Any, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in settings.items()}


def _snapshot(document: Mapping[str, Any]) -> Snapshot:
    check_document(document, name="journal: snapshot")
    return snapshot_of(document)
