"""`-l app=mnist,tier!=dev,env in (a,b),!old`: kubectl's label selectors, read into requirements of the model."""

import re

from sterna.model.errors import InvalidRequest
from sterna.model.node_affinity import LabelOperator, LabelRequirement

_KEY = r"(?P<key>[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?)"
_PART = re.compile(
    rf"""\s*(?:
        (?P<absent>!)\s*{_KEY}
      | {_KEY.replace("key", "among")}\s+(?P<sense>in|notin)\s*\((?P<values>[^()]*)\)
      | {_KEY.replace("key", "equal")}\s*(?P<test>==|=|!=)\s*(?P<value>[A-Za-z0-9._-]*)
      | {_KEY.replace("key", "present")}
    )\s*(?:,|$)""",
    re.VERBOSE,
)
_EXPECTED = "requirements such as app=mnist, tier!=dev, env in (a,b), gpu or !old, with commas between them"


def label_requirements(text: str) -> tuple[LabelRequirement, ...]:
    """All of them must hold. Empty text: none."""
    found: list[LabelRequirement] = []
    place = 0
    while place < len(text.rstrip()):
        part = _PART.match(text, place)
        if part is None:
            raise InvalidRequest(field="--selector", value=text, expected=_EXPECTED)
        found.append(_requirement(part))
        place = part.end()
    return tuple(found)


def _requirement(part: re.Match[str]) -> LabelRequirement:
    if part["absent"]:
        return LabelRequirement(part["key"], LabelOperator.DOES_NOT_EXIST)
    if part["among"]:
        values = tuple(value.strip() for value in part["values"].split(","))
        return LabelRequirement(
            part["among"], LabelOperator.IN if part["sense"] == "in" else LabelOperator.NOT_IN, values
        )
    if part["equal"]:
        sense = LabelOperator.NOT_IN if part["test"] == "!=" else LabelOperator.IN
        return LabelRequirement(part["equal"], sense, (part["value"],))
    return LabelRequirement(part["present"], LabelOperator.EXISTS)
