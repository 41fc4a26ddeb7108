"""Cycles of the core, when something asks for one: paced, one at a time, and over as soon as the term is.

A cycle that fails leaves in force what was decided before; it is told once, and another one is tried a little later.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable

from sterna.engines.decision_ids import DecisionIds
from sterna.engines.kubernetes.loop import begun_moves
from sterna.engines.kubernetes.loop.engine import KubernetesEngine
from sterna.engines.kubernetes.loop.rules import Rules
from sterna.engines.kubernetes.migrations.migration_objects import Migrations
from sterna.engines.kubernetes.process.clock import Timeline
from sterna.engines.kubernetes.process.settings import OperatorConfig
from sterna.engines.kubernetes.process.time_limit import wait_for
from sterna.engines.kubernetes.world.world import World
from sterna.engines.loop import CycleResult, try_cycle
from sterna.engines.pacing import Happening, Pacer
from sterna.engines.thinking import Thinker
from sterna.journal.decision_journal import MOVES, DecisionJournal
from sterna.journal.journal import Journal, NoJournal
from sterna.lifecycle.begun_moves import placing
from sterna.model.errors import StaleView
from sterna.model.plan import Decision

log = logging.getLogger(__name__)

_STALE_S = 0.1  # the world moved on in the middle of a cycle: time enough for the watch to tell how


class Decider:
    def __init__(
        self,
        engine: KubernetesEngine,
        world: World,
        migrations: Migrations,
        timeline: Timeline,
        journal: DecisionJournal | None,
        config: OperatorConfig,
        rules: Callable[[], Rules],
        first: Callable[[], Awaitable[bool]] | None = None,
        on_considered: Callable[[Decision], None] = lambda _: None,
        think: Thinker | None = None,
    ) -> None:
        """`first`: what goes before training, and is done before every cycle. False: it must be tried again.

        `on_considered` is called with decisions that rebalancers took part in. `journal`: None keeps nothing.
        """
        self.pacer = Pacer(rate_limit_s=rules().rate_limit_s)
        self._think = think or Thinker()
        self.cycles = 0
        self.last_cycle_s: float | None = None  # None: there was none yet
        self.problem = ""  # why the latest cycle failed. Empty: it did not
        self._engine = engine
        self._world = world
        self._migrations = migrations
        self._timeline = timeline
        self._journal = journal
        self._ids = DecisionIds()  # of this term
        self._config = config
        self._rules = rules
        self._first = first
        self._on_considered = on_considered
        self._asked = asyncio.Event()
        self._again_s: float | None = None
        self._cut_short = False  # the latest plan waits for room that is being let go of
        self._paused = False
        self._busy = False

    def notice(self, happening: Happening) -> None:
        """Something happened that a decision may depend on."""
        self.pacer.notice(happening)
        self._asked.set()

    def pause(self) -> None:
        self._paused = True

    @property
    def at_rest(self) -> bool:
        asked = self.pacer.due_s(self._timeline.now()) is not None or self._again_s is not None
        return not self._busy and (self._paused or not asked)

    async def run(self) -> None:
        """Until the term ends."""
        self._again_s, self._cut_short = None, False
        self._ids = DecisionIds()
        self.notice(Happening.STARTED_UP)
        while True:
            self._asked.clear()
            wait_s = self._until_next_cycle_s()
            if wait_s > 0 or self._paused:
                await wait_for(self._asked, math.inf if self._paused else wait_s)
            else:
                await self.cycle()

    def _until_next_cycle_s(self) -> float:
        now_s = self._timeline.now()
        if self._engine.wake_s is not None and now_s >= self._engine.wake_s:
            self._engine.wake_s = None
            self.pacer.notice(Happening.TIMER)
        if self._again_s is not None and now_s >= self._again_s:
            self._again_s = None
            self.pacer.notice(Happening.CYCLE_FAILED)
        due_s = self.pacer.due_s(now_s)
        if due_s is not None and self._cut_short and not self._world.anybody_leaves:
            return 0.0  # the room that the plan waited for is there: it goes on without a pause
        moments = (due_s, self._engine.wake_s, self._again_s)
        return max(0.0, min((moment - now_s for moment in moments if moment is not None), default=math.inf))

    async def cycle(self) -> None:
        self._busy = True
        try:
            done = self._first is None or await self._first()
            ticket, rules, began_s = self.pacer.begin(), self._rules(), self._timeline.now()
            begun = begun_moves.begun(self._world)
            place = self._migrations.placing(placing(rules.place, begun))
            self._engine.asked = self._migrations.asked
            self._engine.decision_id = self._ids.next()
            result = await try_cycle(
                self._engine,
                rules.size,
                place,
                self._cycle_journal(rules, some_begun=bool(begun)),
                rules.settings,
                retry_after_s=self._config.retry_s,
                think=self._think,
            )
        finally:
            self._busy = False
        now_s = self._timeline.now()
        self.pacer.end(ticket, now_s)
        self.cycles += 1
        self.last_cycle_s = now_s
        self._follow_up(result, now_s, took_s=now_s - began_s)
        if not done:
            self._again_s = min(now_s + self._config.retry_s, math.inf if self._again_s is None else self._again_s)

    def _cycle_journal(self, rules: Rules, *, some_begun: bool) -> Journal:
        """What the cycle under way is written to."""
        if self._journal is None:
            return NoJournal()
        asked = self._engine.asked  # filled while the decision is made
        return self._journal.cycle(
            self._engine.decision_id, rules.about(), beside=lambda: MOVES if some_begun or asked else ""
        )

    def _follow_up(self, result: CycleResult, now_s: float, *, took_s: float) -> None:
        decision, error = result.decision, result.error
        self._cut_short = decision is not None and any(step.after_release for step in decision.steps)
        self._again_s = self._engine.again_s
        if decision is not None:
            self.problem = ""
            self._migrations.after_cycle()
            if decision.considered:
                self._on_considered(decision)
            if decision.changes_something:
                actions = sum(len(step.actions) for step in decision.steps)
                keys = {"decision": self._engine.decision_id, "actions": actions, "took_ms": round(took_s * 1000)}
                log.info("cycle", extra=keys)
            return
        assert error is not None
        self._again_s = now_s + max(_STALE_S, result.again_after_s or 0.0)
        if isinstance(error, StaleView):
            log.info("cycle stale", extra={"decision": self._engine.decision_id, "why": str(error)})
        elif str(error) != self.problem:
            self.problem = str(error) or type(error).__name__
            log.error("cycle failed", exc_info=error, extra={"decision": self._engine.decision_id})
