"""Lets time pass for nodes that are in doubt, and tells, on the node itself, of those that flap.

What is believed of a node is the index's matter (`world/node_index.py`), by the rule of `lifecycle/node_trust.py`.
"""

import asyncio
import math

from sterna.engines.kubernetes.apiserver.port import NODES
from sterna.engines.kubernetes.cache.cluster_cache import Cache
from sterna.engines.kubernetes.process.clock import Timeline
from sterna.engines.kubernetes.process.settings import OperatorConfig
from sterna.engines.kubernetes.process.time_limit import wait_for
from sterna.engines.kubernetes.status.event_recorder import About, Recorder, Severity
from sterna.engines.kubernetes.world.node_index import Roster
from sterna.lifecycle.node_trust import flapping_in_words

FLAPPING = "NodeFlapping"
STEADY = "NodeSteady"


class NodeWatch:
    def __init__(
        self, cache: Cache, roster: Roster, recorder: Recorder, timeline: Timeline, config: OperatorConfig
    ) -> None:
        self._cache = cache
        self._roster = roster
        self._recorder = recorder
        self._timeline = timeline
        # An operator of named namespaces may not write events where those of nodes live, and uses its own.
        self._namespace = "" if config.watch is None else config.namespace
        self._told: set[str] = set()  # nodes that flap
        self._changed = asyncio.Event()
        roster.on_doubt = self._changed.set

    async def run(self) -> None:
        """Until the term ends. Nodes that flap already are told of again: the leader before may not have done it."""
        self._told.clear()
        while True:
            self._changed.clear()
            self.look()
            next_s = self._roster.next_change_s
            await wait_for(self._changed, math.inf if next_s is None else next_s - self._timeline.now())

    def look(self) -> None:
        self._roster.pass_time()
        flapping = self._roster.flapping
        for name in sorted(flapping.keys() - self._told):
            self._tell(name, FLAPPING, flapping_in_words(flapping[name], self._roster.trust), Severity.WARNING)
        for name in sorted(self._told - flapping.keys()):
            self._tell(name, STEADY, "it has been steady for long enough: it may be given new work", Severity.NORMAL)
        self._told = set(flapping)

    def _tell(self, name: str, reason: str, message: str, severity: Severity) -> None:
        found = self._cache.nodes.get(name)
        if found is not None:
            about = About(NODES.api_version, NODES.kind, self._namespace, name, found.metadata.uid)
            self._recorder.record(about, reason=reason, message=message, severity=severity)
