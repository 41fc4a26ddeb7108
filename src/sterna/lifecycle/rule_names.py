"""Policy, placement, rebalancers and judge by their names and settings, as users write them: read, and checked."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from sterna.model.errors import InvalidRequest
from sterna.model.judging import Judge
from sterna.placement.rebalancers.registry import rebalancing
from sterna.placement.rebalancing import Rebalancing
from sterna.policies.registry import Policy

NO_REBALANCING = "none"
_JUDGE = "judge."


def placement_for(chosen: Policy, name: str | None) -> str:
    """The placement asked for, else the policy's own. A policy whose grants are wishes needs one that settles them."""
    if name is not None and name != chosen.placement and chosen.entry.placement == "dragon":
        expected = f"{chosen.placement}: this policy decides by what fits on nodes"
        raise InvalidRequest(field="placement", value=name, expected=expected)
    return name or chosen.placement


def rebalancers(names: Sequence[str], settings: Mapping[str, str]) -> Rebalancing | None:
    """What they do together, None where there are none; `settings` may also say how jobs are judged.

    Raises `InvalidRequest` for what does not exist, and for settings that belong to none of them.
    """
    judging, moving = split_settings(settings)
    Judge.of(judging)  # refuses what is none of its options
    if names:
        return _rebalancing(tuple(names), tuple(sorted(moving.items())))
    if moving:
        expected = "a rebalancer beside it, whose setting it is"
        raise InvalidRequest(field="rebalance settings", value=next(iter(moving)), expected=expected)
    return None


@lru_cache(maxsize=8)
def _rebalancing(names: tuple[str, ...], settings: tuple[tuple[str, str], ...]) -> Rebalancing:
    """The same for the same words, so that rules which say the same compare equal."""
    return rebalancing(names, dict(settings))


def split_settings(settings: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Those that say how jobs are judged (`judge.threshold`), and those of the rebalancers themselves."""
    judging = {name.removeprefix(_JUDGE): value for name, value in settings.items() if name.startswith(_JUDGE)}
    return judging, {name: value for name, value in settings.items() if not name.startswith(_JUDGE)}


def names_in(text: str) -> tuple[str, ...]:
    """`specon,imbalance`; nothing, or `none`, is none of them."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    return () if names == (NO_REBALANCING,) else names


def settings_in(text: str, *, field: str = "settings") -> dict[str, str]:
    """`name=value` on every line that is not empty."""
    found: dict[str, str] = {}
    for line in filter(None, (line.strip() for line in text.splitlines())):
        name, sign, value = line.partition("=")
        if not sign or not name.strip():
            raise InvalidRequest(field=field, value=line, expected="name=value, one a line")
        found[name.strip()] = value.strip()
    return found


def settings_text(settings: Mapping[str, str]) -> str:
    """The same, as it is read."""
    return "\n".join(f"{name}={value}" for name, value in sorted(settings.items()))
