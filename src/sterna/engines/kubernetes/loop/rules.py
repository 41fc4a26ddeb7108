"""How this operator decides: policy, placement, rebalancers, rate limit. As it was started, and over that what
`sterna-config` says.

The ConfigMap's keys are `policy`, `settings` (one `name=value` a line), `placement`, `rateLimitSeconds`,
`starvingAfterSeconds`, `rebalance` (names with commas between them, `none` for none) and `rebalanceSettings` (as
`settings`; those that begin with `judge.` say how growth is judged), each of which may be left out. What cannot be used
is refused as a whole: the last good rules stay in force, and people are told.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from sterna.engines.kubernetes.process.settings import OperatorConfig
from sterna.engines.pacing import Pacer
from sterna.model.errors import InvalidRequest
from sterna.model.judging import Judge
from sterna.placement.rebalancers.registry import rebalancing
from sterna.placement.rebalancing import Rebalancing
from sterna.placement.strategies import placement
from sterna.planner.decide import Placing, Settings
from sterna.policies.registry import Policy
from sterna.policies.registry import policy as policy_named

KEYS = (
    *("policy", "settings", "placement", "rateLimitSeconds", "starvingAfterSeconds", "idleCpuShare"),
    *("rebalance", "rebalanceSettings"),
)
NO_REBALANCING = "none"
_JUDGE = "judge."


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


def rules_of(config: OperatorConfig, data: Mapping[str, str] | None) -> Rules:
    """What holds when the ConfigMap says `data`; None: there is none. `InvalidRequest` names the key."""
    said = {key: value.strip() for key, value in (data or {}).items()}
    for key in said:
        if key not in KEYS:
            raise InvalidRequest(field="sterna-config", value=key, expected="one of the keys " + ", ".join(KEYS))
    name = said.get("policy") or config.policy
    own = settings_of(said["settings"]) if "settings" in said else {}
    if not said.get("policy") and "settings" not in said:
        own = dict(config.settings)  # another policy has other settings
    chosen = policy_named(name, own)
    wanted = said.get("placement") or (config.placement if not said.get("policy") else None)
    where = wanted or chosen.placement
    if where != chosen.placement and chosen.entry.placement == "dragon":
        expected = f"{chosen.placement}: this policy decides by what fits on nodes"
        raise InvalidRequest(field="placement", value=where, expected=expected)
    rate_limit_s = config.rate_limit_s if "rateLimitSeconds" not in said else _seconds(said, "rateLimitSeconds")
    Pacer(rate_limit_s=rate_limit_s)  # refuses what is no rate limit
    starving = config.starving_after_s if "starvingAfterSeconds" not in said else _seconds(said, "starvingAfterSeconds")
    share = config.idle_cpu_share if "idleCpuShare" not in said else _share(said, "idleCpuShare")
    names, moving = _rebalancers(config, said)
    judging = {name.removeprefix(_JUDGE): value for name, value in moving.items() if name.startswith(_JUDGE)}
    Judge.of(judging)  # refuses what is none of its options
    own_of_theirs = tuple(sorted((name, value) for name, value in moving.items() if not name.startswith(_JUDGE)))
    if own_of_theirs and not names:
        expected = "a rebalancer whose setting it is"
        raise InvalidRequest(field="rebalanceSettings", value=own_of_theirs[0][0], expected=expected)
    return Rules(
        size=chosen,
        place=placement(where),
        placement=where,
        policy_settings=own,
        rate_limit_s=rate_limit_s,
        rebalance=names,
        rebalance_settings=moving,
        judging=judging,
        settings=Settings(
            counted=where == "count",
            starving_after_s=starving,
            rebalance=_rebalancing(names, own_of_theirs) if names else None,
            idle_cpu_share=share,
        ),
    )


def _rebalancers(config: OperatorConfig, said: Mapping[str, str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Names and settings; other rebalancers have other settings, as with policies."""
    if "rebalance" in said:
        names = tuple(dict.fromkeys(filter(None, (name.strip() for name in said["rebalance"].split(",")))))
        names = () if names == (NO_REBALANCING,) else names
    else:
        names = config.rebalance
    if "rebalanceSettings" in said:
        return names, settings_of(said["rebalanceSettings"], field="rebalanceSettings")
    return names, {} if "rebalance" in said else dict(config.rebalance_settings)


@lru_cache(maxsize=8)
def _rebalancing(names: tuple[str, ...], settings: tuple[tuple[str, str], ...]) -> Rebalancing:
    """The same for the same words, so that rules which say the same compare equal."""
    return rebalancing(names, dict(settings))


def settings_of(text: str, *, field: str = "settings") -> dict[str, str]:
    """`name=value` on every line that is not empty."""
    found: dict[str, str] = {}
    for line in filter(None, (line.strip() for line in text.splitlines())):
        name, sign, value = line.partition("=")
        if not sign or not name.strip():
            raise InvalidRequest(field=field, value=line, expected="name=value, one a line")
        found[name.strip()] = value.strip()
    return found


def settings_text(settings: Mapping[str, str]) -> str:
    """The same, as the ConfigMap has it."""
    return "\n".join(f"{name}={value}" for name, value in sorted(settings.items()))


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
