"""How this operator decides: policy, placement, rebalancers, rate limit. As it was started, and over that what
`sterna-config` says.

The ConfigMap's keys are `policy`, `settings` (one `name=value` a line), `placement`, `rateLimitSeconds`,
`starvingAfterSeconds`, `rebalance` (names with commas between them, `none` for none) and `rebalanceSettings` (as
`settings`; those that begin with `judge.` say how growth is judged), each of which may be left out. What cannot be used
is refused as a whole: the last good rules stay in force, and users are told.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sterna.engines.kubernetes.process.settings import OperatorConfig
from sterna.engines.pacing import Pacer
from sterna.journal.journal import Record
from sterna.journal.opening import opening
from sterna.lifecycle.rule_names import names_in, placement_for, rebalancers, settings_in, split_settings
from sterna.model.errors import InvalidRequest
from sterna.placement.strategies import placement
from sterna.planner.decide import Placing, Settings
from sterna.policies.registry import Policy
from sterna.policies.registry import policy as policy_named

KEYS = (
    *("policy", "settings", "placement", "rateLimitSeconds", "starvingAfterSeconds", "idleCpuShare"),
    *("rebalance", "rebalanceSettings"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Checked: whatever is in here can be decided by."""

    size: Policy
    place: Placing
    placement: str
    policy_settings: Mapping[str, str] = field(default_factory=dict)
    rate_limit_s: float
    rebalance: tuple[str, ...] = ()
    rebalance_settings: Mapping[str, str] = field(default_factory=dict)  # theirs, and `judge.*`
    judging: Mapping[str, str] = field(default_factory=dict)  # options of the judge
    settings: Settings

    def about(self) -> Record:
        """What opens a journal of decisions made by these rules."""
        return opening(
            engine="kubernetes",
            policy=self.size.name,
            policy_settings=self.policy_settings,
            placement=self.placement,
            settings=self.settings,
            rebalance=self.rebalance,
            rebalance_settings=split_settings(self.rebalance_settings)[1],
        )


def rules_of(config: OperatorConfig, data: Mapping[str, str] | None) -> Rules:
    """What holds when the ConfigMap says `data`; None: there is none. `InvalidRequest` names the key."""
    said = {key: value.strip() for key, value in (data or {}).items()}
    for key in said:
        if key not in KEYS:
            raise InvalidRequest(field="sterna-config", value=key, expected="one of the keys " + ", ".join(KEYS))
    name = said.get("policy") or config.policy
    own = settings_in(said["settings"]) if "settings" in said else {}
    if not said.get("policy") and "settings" not in said:
        own = dict(config.settings)  # another policy has other settings
    chosen = policy_named(name, own)
    wanted = said.get("placement") or (config.placement if not said.get("policy") else None)
    where = placement_for(chosen, wanted)
    rate_limit_s = config.rate_limit_s if "rateLimitSeconds" not in said else _seconds(said, "rateLimitSeconds")
    Pacer(rate_limit_s=rate_limit_s)  # refuses what is no rate limit
    starving = config.starving_after_s if "starvingAfterSeconds" not in said else _seconds(said, "starvingAfterSeconds")
    share = config.idle_cpu_share if "idleCpuShare" not in said else _share(said, "idleCpuShare")
    names, moving = _rebalancers(config, said)
    return Rules(
        size=chosen,
        place=placement(where),
        placement=where,
        policy_settings=own,
        rate_limit_s=rate_limit_s,
        rebalance=names,
        rebalance_settings=moving,
        judging=split_settings(moving)[0],
        settings=Settings(
            counted=where == "count",
            starving_after_s=starving,
            rebalance=rebalancers(names, moving),
            idle_cpu_share=share,
        ),
    )


def _rebalancers(config: OperatorConfig, said: Mapping[str, str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Names and settings; other rebalancers have other settings, as with policies."""
    names = names_in(said["rebalance"]) if "rebalance" in said else config.rebalance
    if "rebalanceSettings" in said:
        return names, settings_in(said["rebalanceSettings"], field="rebalanceSettings")
    return names, {} if "rebalance" in said else dict(config.rebalance_settings)


def _share(said: Mapping[str, str], key: str) -> float:
    try:
        return float(said[key])
    except ValueError:
        raise InvalidRequest(field=key, value=said[key], expected="a number from 0 to 1") from None


def _seconds(said: Mapping[str, str], key: str) -> float:
    try:
        return float(said[key])
    except ValueError:
        raise InvalidRequest(field=key, value=said[key], expected="seconds, 0 or more") from None
