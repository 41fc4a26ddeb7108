"""What was typed about policies, taken apart: `las:demote=jump`, `a,b,c`, `key=value`.

Whether a policy of that name exists, and what its options may be, the registry says.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from sterna.model.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """A policy and what was set for it; `label` is what reports call it."""

    name: str
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def label(self) -> str:
        return ":".join((self.name, *(f"{key}={value}" for key, value in self.settings)))

    def options_used(self) -> tuple[tuple[str, str], ...]:
        """Every option of the policy as it would be typed, defaults included."""
        from sterna.policies.options import shown
        from sterna.policies.registry import policy

        options = policy(self.name, dict(self.settings)).options
        return tuple((entry.name.replace("_", "-"), shown(getattr(options, entry.name))) for entry in fields(options))


def setting(words: str, *, flag: str = "--set") -> tuple[str, str]:
    """`key=value`, taken apart."""
    key, equals, value = words.partition("=")
    if not equals or not key.strip():
        raise InvalidRequest(field=flag, value=words, expected="key=value")
    return key.strip(), value.strip()


def settings(words: Iterable[str], *, flag: str = "--set") -> dict[str, str]:
    return dict(setting(one, flag=flag) for one in words)


def policy_choices(lists: Sequence[str], common: Mapping[str, str]) -> list[PolicyChoice]:
    """From `--policies a,las:demote=jump` and the `--set` that goes to every policy that has such an option.

    A number after a comma goes on with the list before it, since no policy is called like one:
    `las:thresholds-gpu-s=3250,7200,fifo` are two policies.
    """
    from sterna.policies.registry import ENTRIES, policy

    everyone = [entry.name for entry in ENTRIES]
    typed = [part for words in lists or ["all"] for part in _split(words)]
    if not typed:
        raise InvalidRequest(field="--policies", value="", expected="all, or one of: " + ", ".join(everyone))
    parts = [name for part in typed for name in (everyone if part == "all" else [part])]
    chosen: list[PolicyChoice] = []
    taken: set[str] = set()
    for part in parts:
        name, *own = part.split(":")
        entry = policy(name).entry
        known = {option.name.replace("_", "-") for option in fields(entry.options)}
        lent = {key: value for key, value in common.items() if key.replace("_", "-") in known}
        taken |= lent.keys()
        mine = lent | settings(own)
        policy(name, mine)  # a wrong value is better told before an hour of simulation than after
        chosen.append(PolicyChoice(entry.name, tuple(sorted(mine.items()))))
    for key in common.keys() - taken:
        raise InvalidRequest(field="--set", value=key, expected="an option of at least one of the policies")
    return list(dict.fromkeys(chosen))


def split_list(lists: Sequence[str]) -> list[str]:
    """`a,b` and repeated options alike, each name once, in order."""
    return list(dict.fromkeys(part.strip() for words in lists for part in words.split(",") if part.strip()))


def rebalancer_names(words: str | None) -> list[str]:
    """From `specon,drain`; `none` and nothing are no rebalancers. Whether there are such ones, the registry says."""
    names = [] if words is None else split_list([words])
    return [] if names == ["none"] else names


def _split(words: str) -> list[str]:
    parts: list[str] = []
    for part in (part.strip() for part in words.split(",")):
        if parts and _is_number(part):
            parts[-1] += f",{part}"
        elif part:
            parts.append(part)
    return parts


def _is_number(words: str) -> bool:
    try:
        float(words)
    except ValueError:
        return False
    return True
