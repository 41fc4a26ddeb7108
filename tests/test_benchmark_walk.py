"""What counts as a module of a walk, as background, and as a return; and that a process is recorded as it goes."""

import subprocess
import sys
from pathlib import Path

from benchmarks.walk import recorder
from benchmarks.walk.__main__ import beyond, told
from benchmarks.walk.account import Notes, Station, Walk, Window, walk_of

IDLE = Window(0.0, 9.0)


def notes(*rows: str) -> Notes:
    """Rows such as `10 x -> y` (visits are named as their modules, `y.2` is the second one of `y`)."""
    lines = []
    for row in rows:
        at, parent, _, visit = row.split()
        module = visit.split(".")[0]
        lines.append(f"{at}\tenter\t1\t{visit}\t{parent}\tsterna.{module}\t{module}_function")
    return Notes(lines)


def walk(found: Notes, *windows: Window) -> Walk:
    windows = windows or (Window(10.0, 99.0),)
    return walk_of("A walk", found, windows, [lambda visit: "engine"] * len(windows), idle=IDLE, judged="engine")


def names(found: Walk) -> list[str]:
    return [station.module.removeprefix("sterna.") for station in found.stations]


def test_modules_come_in_the_order_in_which_they_are_first_entered():
    found = walk(notes("10 - -> a", "11 a -> b", "12 b -> c", "13 a -> b.2"))
    assert names(found) == ["a", "b", "c"]
    assert (found.modules, found.calls) == (3, 4)


def test_what_happens_before_and_after_is_no_part_of_it():
    assert names(walk(notes("9.5 - -> early", "10 - -> a", "100 - -> late"))) == ["a"]


def test_a_root_that_does_what_it_does_while_idle_is_background():
    found = notes("1 - -> tick", "2 tick -> disk", "10 - -> a", "11 - -> tick.2", "12 tick.2 -> disk.2")
    assert names(walk(found)) == ["a"]


def test_a_root_that_goes_further_than_while_idle_is_on_the_walk_with_all_it_calls():
    found = notes("1 - -> cycle", "2 cycle -> look", "10 - -> cycle.2", "11 cycle.2 -> look.2", "12 cycle.2 -> place")
    assert names(walk(found)) == ["cycle", "look", "place"]


def test_what_only_one_of_several_jobs_meets_was_there_by_chance():
    found = notes("10 - -> a", "11 a -> b", "12 a -> chance", "20 - -> a.2", "21 a.2 -> b.2")
    assert names(walk(found, Window(10.0, 19.0), Window(20.0, 29.0))) == ["a", "b"]


def again(found: Walk) -> dict[str, int]:
    return {station.module.removeprefix("sterna."): station.reentered for station in found.stations}


def test_a_module_is_reentered_when_one_caller_leaves_it_for_another_and_comes_back():
    rows = ["10 - -> a", "11 a -> b", "12 b -> x", "13 a -> c", "14 c -> x.2", "15 a -> b.2", "16 b.2 -> x.3"]
    assert again(walk(notes(*rows))) == {"a": 0, "b": 1, "c": 0, "x": 0}


def test_calls_in_a_row_and_calls_from_elsewhere_are_no_return():
    rows = ["10 - -> a", "11 a -> b", "12 b -> x", "13 a -> b.2", "14 b.2 -> x.2"]
    rows += ["15 a -> c", "16 c -> b.3", "17 b.3 -> x.3"]
    assert again(walk(notes(*rows)))["b"] == 0


def test_asking_a_helper_that_goes_nowhere_is_no_return():
    rows = ["10 - -> a", "11 a -> clock", "12 a -> b", "13 b -> x", "14 a -> clock.2", "15 a -> c", "16 a -> clock.3"]
    assert again(walk(notes(*rows)))["clock"] == 0


def station(module: str, *, part: str = "engine", reentered: int = 0) -> Station:
    return Station(f"sterna.{module}", part, 2, reentered, ("one", "two", "three", "four", "five"))


def test_limits_are_about_the_part_that_is_judged():
    few = Walk("A walk", "engine", tuple(station(f"m{number}") for number in range(70)))
    assert beyond(few) == []
    assert beyond(Walk("A walk", "engine", (*few.stations, station("front", part="api")))) == []
    assert beyond(Walk("A walk", "engine", (*few.stations, station("more")))) == ["A walk: 71 modules, the limit is 70"]
    assert "re-entered 3 times" in beyond(Walk("A walk", "engine", (station("m", reentered=3),)))[0]


def test_each_module_gets_a_line_with_what_it_contributed():
    lines = told(Walk("A walk", "engine", (station("planner.decide"), station("cli", part="command"))))
    assert "1 modules (limit 70" in lines[0]
    assert any("planner.decide" in line and "one, two, three, four and 1 more" in line for line in lines)
    assert "  -- command: 1 modules, not judged" in lines


PROGRAM = """
import asyncio, dataclasses, sys, threading
sys.path.insert(0, {root!r})
sys.path.insert(0, {source!r})
from benchmarks.walk.recorder import Recorder
recorder = Recorder({notes!r}, {package!r})
sys.setprofile(recorder)
threading.setprofile(recorder)
from sterna import first
sys.setprofile(recorder)
first.begin()
"""
MODULES = {
    "first": """
import asyncio, threading
from sterna import second
second.at_import()
def begin():
    helper()
    asyncio.run(main())
    thread = threading.Thread(target=second.in_thread)
    thread.start()
    thread.join()
def helper():
    second.Value(1)
    sorted([2, 1], key=second.key)
async def main():
    await second.waits()
""",
    "second": """
import asyncio, dataclasses
@dataclasses.dataclass
class Value:
    number: int
def at_import(): pass
def key(number): return number
def in_thread(): pass
async def waits():
    for _ in range(2):
        await asyncio.sleep(0)
""",
}


def test_a_process_is_recorded_with_its_threads_and_tasks_but_without_imports_and_generated_methods(tmp_path):
    package = tmp_path / "src" / "sterna"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    for name, text in MODULES.items():
        (package / f"{name}.py").write_text(text)
    root = str(Path(recorder.__file__).parents[2])
    made = PROGRAM.format(root=root, source=str(package.parent), notes=str(tmp_path / "notes"), package=str(package))
    subprocess.run([sys.executable, "-S", "-E", "-c", made], check=True, cwd=tmp_path)
    visits = Notes.read(tmp_path / "notes").visits
    entered = [(visit.module, visit.function) for visit in visits]
    assert entered == [
        ("sterna.first", "begin"),
        *[("sterna.second", "key")] * 2,
        ("sterna.first", "main"),
        ("sterna.second", "waits"),
        ("sterna.second", "in_thread"),
    ]
    by_function = {visit.function: visit for visit in visits}
    assert by_function["key"].parent == by_function["begin"].id
    assert by_function["main"].parent == "-", "a task begins in the event loop"
    assert by_function["waits"].parent == by_function["main"].id
    assert by_function["in_thread"].parent == "-"
    assert all(visit.left_s is not None for visit in visits)
