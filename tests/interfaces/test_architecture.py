"""The page about the house: storeys from the contracts, rooms from the packages, walks from what was measured."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

import sterna
from sterna.interfaces.plots.storeys import storeys_plot
from sterna.interfaces.plots.svg import text_width
from sterna.interfaces.plots.walk import shown_name, walk_plot
from sterna.interfaces.reference.architecture import contracts, rooms, rooms_block, storeys, storeys_block

ROOT = Path(__file__).parents[2]
PACKAGE = Path(sterna.__file__).parent
RULES = [
    {"name": "One way", "type": "layers", "layers": ["sterna.top", "sterna.left | sterna.right", "sterna.base"]},
    {"name": "Inside", "type": "layers", "containers": ["sterna.left"], "layers": ["a | b", "c"]},
    {"name": "Alone", "type": "forbidden", "source_modules": ["sterna.left"], "forbidden_modules": ["yaml"]},
    {"name": "Small", "type": "forbidden", "source_modules": ["sterna.right"], "forbidden_modules": ["sterna.base"]},
    {"name": "Apart", "type": "independence", "modules": ["sterna.left.a", "sterna.left.b"]},
]
WALKS = json.loads((ROOT / "docs" / "images" / "walk.json").read_text(encoding="utf-8"))
SVG = "{http://www.w3.org/2000/svg}"


def house(directory: Path) -> Path:
    for name in ("top", "left", "right", "base", "left/inner"):
        (directory / name).mkdir()
        (directory / name / "__init__.py").write_text(f'"""Holds {name}.\n\nMore."""\n')
    (directory / "left" / "inner" / "thing.py").write_text('"""A thing."""\n')
    return directory


def test_storeys_are_those_of_the_contract_from_the_top_down():
    assert [one.packages for one in storeys(RULES)] == [("top",), ("left", "right"), ("base",)]


def test_a_storey_may_import_what_is_below_it_and_not_its_neighbour(tmp_path):
    lines = storeys_block(RULES, house(tmp_path)).splitlines()
    assert "| `left` | Holds left. | `base` |" in lines
    assert "| `base` | Holds base. | nothing of these |" in lines
    assert "| `top` | Holds top. | `left`, `right`, `base` |" in lines


def test_what_another_contract_forbids_is_not_allowed_by_standing_below(tmp_path):
    assert "| `right` | Holds right. | nothing of these |" in storeys_block(RULES, house(tmp_path)).splitlines()


def test_layers_may_be_named_with_the_package_or_inside_it():
    inside = [{"name": "One way", "type": "layers", "containers": ["sterna"], "layers": ["top", "left | right"]}]
    assert [one.packages for one in storeys(inside)] == [("top",), ("left", "right")]


def test_every_other_contract_is_told_as_a_line(tmp_path):
    lines = storeys_block(RULES, house(tmp_path)).splitlines()
    assert "- **Alone.** `left` must not import `yaml`, not through others either." in lines
    assert "- **Inside.** In `left`: `a`, `b` above `c`." in lines
    assert "- **Apart.** `left.a`, `left.b` must not import each other." in lines


def test_a_room_is_told_once_with_its_first_paragraph_and_its_modules(tmp_path):
    package = house(tmp_path)
    assert rooms(package, "left")[1] == ("left/inner", 1, "Holds left/inner.")
    assert rooms_block(package, ("left", "left/inner")).count("left/inner/") == 1


def test_every_package_of_the_stack_says_what_it_is_for():
    rules = contracts(ROOT / "pyproject.toml")
    rows = [line for line in storeys_block(rules, PACKAGE).splitlines() if line.startswith("| `")]
    assert rows
    assert [row for row in rows if "|  |" in row] == []


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_is_drawn_whole_and_inside_its_picture(name):
    walk = WALKS[name]
    picture = ElementTree.fromstring(walk_plot(walk))
    assert float(picture.get("width", "0")) <= 420
    at = {element.text: float(element.get("x", "0")) for element in picture.iter(f"{SVG}text")}
    names = {shown_name(station["module"]): f"{station['calls']}" for station in walk["stations"]}
    assert [name for name in names if name not in at] == []
    small = 11 / 12  # of the usual size
    assert [name for name, calls in names.items() if at[name] + small * text_width(name + calls) > 408] == []


def test_the_walks_are_those_of_both_engines_and_their_numbers_add_up():
    assert sorted(WALKS) == ["kubernetes", "local"]
    for walk in WALKS.values():
        judged = [one for one in walk["stations"] if one["part"] == walk["judged"]]
        assert (walk["modules"], walk["calls"]) == (len(judged), sum(one["calls"] for one in judged))


def test_storeys_stand_below_each_other_and_neighbours_beside_each_other():
    picture = ElementTree.fromstring(storeys_plot([("top",), ("left", "right"), ("base",)]))
    places = {element.text: (element.get("x"), float(element.get("y", "0"))) for element in picture.iter(f"{SVG}text")}
    assert places["top"][1] < places["left"][1] == places["right"][1] < places["base"][1]
    assert places["left"][0] != places["right"][0]
