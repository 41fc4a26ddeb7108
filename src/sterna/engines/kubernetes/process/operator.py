"""The operator from its start to its end: caches kept warm, a Lease asked for, and, while it leads, jobs looked after.

    operator = Operator(config, api, parse=workload_of_object, read_migration=read_migration)
    await operator.run()     # until `stop`, or until it is cancelled: jobs run on either way
    operator.stop()          # give the Lease back, so that a standby need not wait for it to run out

Everything that must survive is in the cluster's own objects, so being killed at any point costs no more than time.
"""

import asyncio
import logging
import secrets

from sterna.engines.door import Door, secrets_in, serve_door
from sterna.engines.kubernetes.apiserver.fused_api import FusedApi
from sterna.engines.kubernetes.apiserver.objects import ConfigMapObject
from sterna.engines.kubernetes.apiserver.own_configmaps import is_own
from sterna.engines.kubernetes.apiserver.port import CONFIG_MAPS, Api
from sterna.engines.kubernetes.apiserver.write_fuse import WriteFuse
from sterna.engines.kubernetes.bodies.monitor_address import monitor_at
from sterna.engines.kubernetes.cache.cluster_cache import Cache
from sterna.engines.kubernetes.kubeshare.share_placement import Sharing
from sterna.engines.kubernetes.loop.claim_reader import ClaimReader
from sterna.engines.kubernetes.loop.cycles import Decider
from sterna.engines.kubernetes.loop.engine import KubernetesEngine
from sterna.engines.kubernetes.loop.finished_register import FinishedRegister
from sterna.engines.kubernetes.loop.job_runner import Carrier
from sterna.engines.kubernetes.loop.node_watch import NodeWatch
from sterna.engines.kubernetes.loop.rules import Rules, rules_of
from sterna.engines.kubernetes.migrations.cluster_door import Office, Reception
from sterna.engines.kubernetes.migrations.considered_moves import Considering
from sterna.engines.kubernetes.migrations.migration_objects import Migrations, ReadMigration
from sterna.engines.kubernetes.process.clock import Clock, SystemClock, Timeline
from sterna.engines.kubernetes.process.election import Election, Timing
from sterna.engines.kubernetes.process.excluded_namespaces import refusing_excluded
from sterna.engines.kubernetes.process.health import Health, serve_health
from sterna.engines.kubernetes.process.settings import CONFIG, LEASE, Binding, OperatorConfig
from sterna.engines.kubernetes.progress.monitor_tokens import MonitorTokens
from sterna.engines.kubernetes.progress.report_intake import Reporting
from sterna.engines.kubernetes.progress.speed_store import Keeper
from sterna.engines.kubernetes.status.event_recorder import About, Recorder, Severity
from sterna.engines.kubernetes.status.standing import Standing
from sterna.engines.kubernetes.world.foreign_pods import Strangers
from sterna.engines.kubernetes.world.job_index import KnownJob, Parse
from sterna.engines.kubernetes.world.world import World
from sterna.engines.pacing import Happening
from sterna.engines.thinking import Thinker
from sterna.journal.decision_journal import DecisionJournal
from sterna.journal.journal import Shapes
from sterna.lifecycle.node_trust import TrustRules
from sterna.model.errors import InvalidRequest

log = logging.getLogger(__name__)


class Operator:
    """`api` is the door to the cluster, whatever implements it. `InvalidRequest`: the configuration makes no sense."""

    def __init__(
        self,
        config: OperatorConfig,
        api: Api,
        *,
        parse: Parse,
        read_migration: ReadMigration,
        clock: Clock | None = None,
        shapes: Shapes | None = None,
    ) -> None:
        """`shapes`: how decisions are written for replay, where `config` names a place for it. None: they are not."""
        clock = clock or SystemClock()
        self.config = config
        self.rules: Rules = rules_of(config, None)
        self.health_port: int | None = None  # where probes are answered. None: nowhere, or not yet
        self.door_port: int | None = None  # where the door is. None: there is none, or not yet
        self._instance = ""  # of the present term: what monitors told an earlier one is told again
        self._rules_problem = ""
        self._api = api
        self._clock = clock
        self._election = self._made_election(api, clock)
        self.fuse = WriteFuse(clock)
        guarded = FusedApi(api if self._election is None else api.guarded(self._election.gate), self.fuse)
        self.timeline = Timeline(clock)
        self.cache = Cache(api, config, clock)
        self.world = World(
            self.cache,
            refusing_excluded(config, parse),
            now=self.timeline.now,
            trust=TrustRules(lost_after_s=config.node_lost_after_s, steady_s=config.node_steady_after_s),
            share_learning=config.share_learning,
            places_pods=config.binding is not Binding.NONE,
        )
        self._recorder = Recorder(guarded, instance=config.identity, clock=clock)
        self._node_watch = NodeWatch(self.cache, self.world.roster, self._recorder, self.timeline, config)
        parts = (guarded, self.cache, self.world, self.timeline, self._recorder, config)
        self.carrier = Carrier(
            *parts,
            notice=self._notice,
            on_written=self._written,
            monitor=monitor_at(config),
            confirmed=None if self._election is None else self._election.confirmed,
        )
        self.claim_reader = ClaimReader(
            api,
            self.world.claims,
            self.world.jobs,
            self.timeline,
            changed=self.world.look_again_at,
            notice=self._notice,
        )
        self.engine = KubernetesEngine(guarded, self.cache, self.world, self.carrier, self.timeline, config)
        self.migrations = Migrations(*parts, read_migration, notice=self._notice)
        self.keeper = Keeper(guarded, self.cache, self.world.lessons, config)
        self.reporting = Reporting(
            self.cache,
            self.world,
            self.timeline,
            look_at=self.carrier.mark,
            notice=self._notice,
            tell=self.carrier.tell,
        )
        self.register = FinishedRegister(guarded, self.cache, self.world.jobs, config)
        self._strangers = Strangers(self.cache, self.world.jobs, self._recorder, clock)
        self._door = self._made_door(guarded)
        self._considering = Considering(self.world, self._recorder, self.timeline, config)
        self._think = Thinker()
        self.journal = self._made_journal(shapes)
        self.sharing = self._made_sharing(guarded) if config.kubeshare else None
        self.decider = Decider(
            self.engine,
            self.world,
            self.migrations,
            self.timeline,
            self.journal,
            config,
            rules=lambda: self.rules,
            first=None if self.sharing is None else self.sharing.place,
            on_considered=self._considering.note,
            think=self._think,
        )
        self.world.on_change = self._job_changed
        self.world.lessons.on_learned = self._learned
        self.world.lessons.judge_by(self.rules.judging)
        self.world.listen(self._notice)
        self.cache.own.listen(self._own_changed)
        self._stopping = asyncio.Event()
        self._leads = asyncio.Event()

    # -- beginning and end --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Everything, until `stop` or cancellation. `OSError`: probes cannot be answered where they should be."""
        config = self.config
        async with asyncio.TaskGroup() as group:
            background = [group.create_task(self.cache.run()), group.create_task(self._recorder.run())]
            if config.health_port is not None:
                serving = serve_health(
                    self.health, host=config.health_host, port=config.health_port, told=self._listens_at
                )
                background.append(group.create_task(serving))
            if self._door is not None and config.door_port is not None:
                serving = serve_door(self._door, host=config.door_host, port=config.door_port, told=self._is_entered_at)
                background.append(group.create_task(serving))
            leading = group.create_task(self._lead())
            await self._stopping.wait()
            leading.cancel()  # which gives the Lease back; everything else is still there for it
            await asyncio.wait({leading})
            for task in background:
                task.cancel()
            if self.journal is not None:
                await asyncio.to_thread(self.journal.close)

    def stop(self) -> None:
        """End `run` soon: nothing more is decided, and the Lease is given back."""
        self._stopping.set()

    async def ready(self) -> None:
        """Until it leads and jobs are looked after."""
        await self._leads.wait()

    async def _lead(self) -> None:
        await self.cache.synced()
        if self._election is None:
            await self._term(self._highest_epoch())
        else:
            await self._election.lead(self._term)

    async def _term(self, epoch: int) -> None:
        """From getting the Lease to losing it."""
        self.engine.begin_term()
        self.register.begin_term()
        self.keeper.begin_term()
        self._strangers.begin_term()
        self._instance = secrets.token_hex(8)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.carrier.run(epoch))
                group.create_task(self.migrations.run())
                group.create_task(self.keeper.run())
                group.create_task(self.claim_reader.run())
                group.create_task(self.register.run())
                group.create_task(self.decider.run())
                group.create_task(self._considering.run())
                group.create_task(self._node_watch.run())
                self._leads.set()
        finally:
            self._leads.clear()

    # -- asking -------------------------------------------------------------------------------------------------------

    @property
    def leads(self) -> bool:
        return self._leads.is_set()

    @property
    def at_rest(self) -> bool:
        """Nothing is left to do for what is known: no job is being carried on, and no cycle is asked for."""
        parts = (self.carrier, self.migrations, self.decider, self.keeper, self.claim_reader, self.register)
        return self.leads and all(part.at_rest for part in parts)

    def health(self) -> Health:
        age_s = None if self.decider.last_cycle_s is None else self.timeline.now() - self.decider.last_cycle_s
        election = self._election
        return Health(
            alive=not self._stopping.is_set(),
            synced=self.cache.is_synced,
            leads=self.leads,
            leader=self.config.identity if election is None else election.holder,
            cycles=self.decider.cycles,
            last_cycle_age_s=age_s,
            policy=self.rules.size.name,
            problem=self._rules_problem or self.decider.problem or self.cache.trouble,
            jobs=len(self.world.jobs),
            fuses_blown=self.fuse.blown,
            writes_held_back=self.fuse.held_back,
        )

    # -- for tests, and for callers that move the clock ---------------------------------------------------------------

    def pause_cycles(self) -> None:
        """Decide nothing by itself; what is intended is carried out all the same."""
        self.decider.pause()

    def look_again(self) -> None:
        """Look at every node in doubt and every job, and decide once, whatever the timers say."""
        self._node_watch.look()
        for job in self.world.jobs:
            self.carrier.mark(job.uid)
        self._notice(Happening.TIMER)

    # -- news ---------------------------------------------------------------------------------------------------------

    def _notice(self, happening: Happening) -> None:
        self.decider.notice(happening)

    def _job_changed(self, uid: str) -> None:
        self.carrier.mark(uid)
        if uid not in self.world.jobs.by_uid:
            self.reporting.forget(uid)

    def _written(self, job: KnownJob, before: Standing, after: Standing) -> None:
        self.migrations.written(job, before, after)
        self.register.written(job, after)
        if after.progress != before.progress or (after.finished and not before.finished):
            self.world.lessons.written(self.world.jobs.view(job).spec, before, after)

    def _learned(self, category: str) -> None:
        self.world.touch_category(category)
        self.keeper.learned()

    def _own_changed(self, before: ConfigMapObject | None, after: ConfigMapObject | None) -> None:
        found = after or before
        if found is not None and found.metadata.name == CONFIG:
            self._use(after if after is not None and is_own(after) else None, found)

    def _use(self, config_map: ConfigMapObject | None, found: ConfigMapObject) -> None:
        """What people wrote from now on; what cannot be used changes nothing, and they are told."""
        try:
            rules = rules_of(self.config, None if config_map is None else config_map.data)
        except InvalidRequest as error:
            self._rules_problem = f"{CONFIG} is not used: {error}"
            log.error("configuration refused", extra={"why": str(error)})
            self._tell(found, "ConfigurationRefused", f"{error}; the last good configuration stays in force", bad=True)
            return
        had_problem, self._rules_problem = bool(self._rules_problem), ""
        if rules == self.rules:
            if had_problem:
                self._tell(found, "ConfigurationUsed", "the configuration is in order again")
            return
        self.rules = rules
        self.world.lessons.judge_by(rules.judging)
        self.decider.pacer.rate_limit_s = rules.rate_limit_s
        log.info("configuration changed", extra={"policy": rules.size.name, "placement": rules.placement})
        self._tell(found, "ConfigurationUsed", f"jobs are shared out by {rules.size.name} from now on")
        self._notice(Happening.POLICY_CHANGED)

    def _tell(self, found: ConfigMapObject, reason: str, message: str, *, bad: bool = False) -> None:
        meta = found.metadata
        about = About(CONFIG_MAPS.api_version, CONFIG_MAPS.kind, meta.namespace, meta.name, meta.uid)
        severity = Severity.WARNING if bad else Severity.NORMAL
        if self.leads:  # one of the replicas is enough
            self._recorder.record(about, reason=reason, message=message, severity=severity)

    def _listens_at(self, port: int) -> None:
        self.health_port = port

    def _is_entered_at(self, port: int) -> None:
        self.door_port = port

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _made_election(self, api: Api, clock: Clock) -> Election | None:
        config = self.config
        if not config.elect:
            return None
        margin_s = min(2.0, config.lease_s / 5)
        timing = Timing(
            duration_s=round(config.lease_s), renew_s=config.renew_s, retry_s=config.retry_s, margin_s=margin_s
        )
        return Election(
            api,
            namespace=config.namespace,
            identity=config.identity,
            name=LEASE,
            timing=timing,
            clock=clock,
            epoch_above=self._highest_epoch,
        )

    def _made_journal(self, shapes: Shapes | None) -> DecisionJournal | None:
        config = self.config
        if shapes is None or config.journal is None:
            return None
        return DecisionJournal(
            config.journal, shapes, bytes_max=config.journal_bytes_max, files_max=config.journal_files_max
        )

    def _made_door(self, api: Api) -> Door | None:
        config = self.config
        if config.door_port is None or config.token_file is None:
            return None
        household = Reception(
            api,
            self.cache,
            self.world,
            self.timeline,
            self.reporting,
            look=lambda: self.world.snapshot(self.timeline.now(), self.engine.memory),
            office=self._office,
        )
        account = config.monitor_account
        reviewed = None if account is None else MonitorTokens(self._api, account, now_s=self._clock.mono)
        vouch = None if reviewed is None else reviewed.node_of
        return Door(household, secrets_in(config.token_file).lines, vouch=vouch)

    def _office(self) -> Office:
        leader = self.config.identity if self._election is None else self._election.holder
        return Office(self.leads, leader, self._instance)

    def _made_sharing(self, api: Api) -> Sharing:
        return Sharing(
            api,
            self.cache,
            self.world.roster,
            self._recorder,
            look=lambda: self.world.snapshot(self.timeline.now(), self.engine.memory),
            rules=lambda: self.rules,
            notice=self._notice,
            namespace=self.config.namespace,
            think=self._think,
        )

    def _highest_epoch(self) -> int:
        return max((job.status.recorded.epoch for job in self.world.jobs), default=0)
