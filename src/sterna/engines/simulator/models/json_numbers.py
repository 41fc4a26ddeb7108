"""Reading JSON files of measurements: objects of positive numbers, refused by name and place where they are not."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sterna.model.errors import InvalidRequest


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidRequest(field="profiles", value=str(path), expected="a file that can be read") from error
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(field="profiles", value=str(path), expected="a JSON file") from error


def mapping_at(value: Any, *, path: Path, at: str = "") -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidRequest(field=_place(path, at), value=value, expected="an object")
    return value


def numbers_at(mapping: Mapping[str, Any], key: str, *, path: Path, at: str = "") -> tuple[float, ...]:
    """A list of finite numbers above 0, at least one."""
    values = mapping.get(key)
    if not isinstance(values, list) or not values or not all(map(is_positive, values)):
        place = _place(path, f"{at}.{key}" if at else key)
        raise InvalidRequest(field=place, value=values, expected="a list of numbers above 0")
    return tuple(map(float, values))


def is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _place(path: Path, at: str) -> str:
    return f"profiles {path.name}: {at}" if at else f"profiles {path.name}"
