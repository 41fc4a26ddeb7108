"""How this engine decides: policy, placement, rebalancers, rate limit, as they were set last. Kept in the store."""

from collections.abc import Callable, Mapping, Sequence

from sterna.engines.local.migrations import asked_moves
from sterna.engines.local.process.assembly import POLICY, RATE_LIMIT_S, LocalConfig
from sterna.engines.local.store.job_book import Book
from sterna.engines.pacing import Pacer
from sterna.journal.journal import Record
from sterna.journal.opening import opening
from sterna.lifecycle.rule_names import placement_for, rebalancers, split_settings
from sterna.model.errors import InvalidRequest
from sterna.placement.rebalancing import Rebalancing
from sterna.placement.strategies import placement
from sterna.planner.decide import Placing, Settings
from sterna.policies.registry import Policy
from sterna.policies.registry import policy as policy_named


class Rules:
    """What the configuration says, else what was set last, else the defaults."""

    def __init__(self, book: Book, config: LocalConfig, *, on_proposals: Callable[[bool], None]) -> None:
        self._store = book.store
        self._book = book
        self._starving_after_s = config.starving_after_s
        self._idle_cpu_share = config.idle_cpu_share
        self._version = config.version
        self._on_proposals = on_proposals
        known = self._store.setting("policy") or {"name": POLICY, "settings": {}, "placement": None}
        if config.policy is not None:
            known = {"name": config.policy, "settings": dict(config.settings), "placement": config.placement}
        self.rate_limit_s: float = RATE_LIMIT_S
        for said in (self._store.setting("rateLimitSeconds"), config.rate_limit_s):
            self.rate_limit_s = self.rate_limit_s if said is None else float(said)
        moves = self._store.setting("rebalance") or {"names": [], "settings": {}}
        if config.rebalance is not None:
            moves = {"names": list(config.rebalance), "settings": dict(config.rebalance_settings)}
        self.rebalancers: tuple[str, ...] = ()
        self.rebalance_settings: dict[str, str] = {}
        self._rebalance: Rebalancing | None = None
        self.use(known["name"], known["settings"], known["placement"])
        self.use_rebalancers(moves["names"], moves["settings"])

    def use(self, name: str, settings: Mapping[str, str], placement_name: str | None) -> None:
        """Decide by this from now on, and after every restart. What does not exist is refused and changes nothing."""
        chosen = policy_named(name, settings)
        where = placement_for(chosen, placement_name)
        place = placement(where)
        with self._store.write(what="policy") as write:
            write.setting("policy", {"name": chosen.name, "settings": dict(settings), "placement": placement_name})
        self.size: Policy = chosen
        self.placement = where
        self.policy_settings = dict(settings)
        self.place: Placing = asked_moves.placing(self._book, place, self._on_proposals)
        self.settings = self._settings()

    def use_rebalancers(self, names: Sequence[str], settings: Mapping[str, str]) -> None:
        """Move work by these from now on, none of them included. What does not exist is refused and changes nothing."""
        made = rebalancers(names, settings)
        with self._store.write(what="rebalance") as write:
            write.setting("rebalance", {"names": list(names), "settings": dict(settings)})
        self.rebalancers, self.rebalance_settings, self._rebalance = tuple(names), dict(settings), made
        self._book.judge_settings = split_settings(settings)[0]
        self.settings = self._settings()

    def _settings(self) -> Settings:
        return Settings(
            counted=self.placement == "count",
            starving_after_s=self._starving_after_s,
            rebalance=self._rebalance,
            idle_cpu_share=self._idle_cpu_share,
        )

    def use_rate_limit(self, said: str, pacer: Pacer | None) -> None:
        try:
            seconds = float(said)
        except ValueError:
            raise InvalidRequest(field="rate limit", value=said, expected="seconds, 0 or more") from None
        (pacer or Pacer()).rate_limit_s = seconds  # refuses what is no rate limit
        with self._store.write(what="rate limit") as write:
            write.setting("rateLimitSeconds", seconds)
        self.rate_limit_s = seconds

    def about(self) -> Record:
        """What opens a journal of decisions made by these rules."""
        return opening(
            engine="local",
            policy=self.size.name,
            policy_settings=self.policy_settings,
            placement=self.placement,
            settings=self.settings,
            rebalance=self.rebalancers,
            rebalance_settings=split_settings(self.rebalance_settings)[1],
            version=self._version,
        )
