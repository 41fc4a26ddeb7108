"""Which jobs have ended, beside their own statuses: a job that has ended is never run again, whatever its status says.

A client that may write statuses may wipe or forge that of a job which has ended, and with `cleanPodPolicy: All` nothing
else in its namespace tells that it ran. So ends are kept once more, in a ConfigMap of the operator's own namespace
(`loop/finished_register.py` writes it). An owner who wants a job to run again deletes it and creates it anew.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sterna.engines.kubernetes.apiserver.timestamps import moment_s, second_text
from sterna.engines.kubernetes.status.standing import Standing
from sterna.model.phases import FINISHED, Phase

REMEMBERED_MAX = 4000  # the latest: about 300 KB
_PHASES = {phase.value: phase for phase in FINISHED}
MESSAGE = "it had ended before its status was lost; what is known is how and when"


class Ended(NamedTuple):
    phase: Phase
    at_s: float


def ended_of(standing: Standing) -> Ended | None:
    """None: it has not."""
    return Ended(standing.phase, standing.finished_s or 0.0) if standing.finished else None


def standing_of(ended: Ended) -> Standing:
    """What is left of the standing of a job that has ended."""
    return Standing(
        phase=ended.phase,
        reason="Completed" if ended.phase is Phase.SUCCEEDED else "Failed",
        message=MESSAGE,
        enqueued_s=ended.at_s,
        as_of_s=ended.at_s,
        finished_s=ended.at_s,
    )


def latest(found: Iterable[tuple[str, Ended]]) -> dict[str, Ended]:
    """As many as are remembered, by uid."""
    in_order = sorted(found, key=lambda pair: (-pair[1].at_s, pair[0]))
    return dict(in_order[:REMEMBERED_MAX])


def finished_data(found: Mapping[str, Ended]) -> dict[str, str]:
    """As a ConfigMap has it: a key for each job, so that a write carries what is new alone."""
    return {uid: f"{ended.phase} {second_text(ended.at_s)}" for uid, ended in found.items()}


def finished_of(data: Mapping[str, str] | None) -> dict[str, Ended]:
    """What makes no sense is passed over."""
    found = {}
    for uid, text in (data or {}).items():
        word, _, moment = text.partition(" ")
        at_s = moment_s(moment)
        if word in _PHASES and at_s is not None:
            found[uid] = Ended(_PHASES[word], at_s)
    return found
