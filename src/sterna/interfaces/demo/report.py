"""What the play showed: figures for programs, a few lines for a terminal, a page with the picture for a browser."""

from collections.abc import Callable
from statistics import median
from typing import Any

from sterna import __version__
from sterna.interfaces.demo.play import Seen
from sterna.interfaces.plots.gpu_slots import timeline_plot
from sterna.interfaces.plots.html_page import Cell, facts, html_page, sortable_table
from sterna.interfaces.plots.scales import duration
from sterna.interfaces.scheduler_port import Record

TITLE = "Six jobs share three nodes, and one node is emptied under them"


def figures(seen: Seen) -> dict[str, Any]:
    """Everything the page says, as data."""
    changes = [{"job": job["name"], **change} for job in seen.jobs for change in job["history"]]
    pauses = [change["downtimeSeconds"] for change in changes if change.get("downtimeSeconds") is not None]
    moves = [move for move in seen.migrations if move["phase"] == "Succeeded"]
    moved = [move["downtimeSeconds"] for move in moves if move.get("downtimeSeconds") is not None]
    return {
        "version": __version__,
        "tookSeconds": round(seen.took_s, 3),
        "finishedInTime": seen.in_time,
        "jobs": len(seen.jobs),
        "succeeded": sum(job["phase"] == "Succeeded" for job in seen.jobs),
        "stepsLost": sum(job["stepsLost"] for job in seen.jobs),
        "restarts": sum(job["restarts"] for job in seen.jobs),
        "resizes": sum(change["kind"] == "resize" for change in changes),
        "preemptions": sum(change["kind"] == "preemption" for change in changes),
        "migrations": len(moves),
        "migrationDowntimeSeconds": _spread(moved),
        "downtimeSeconds": _spread(pauses),
        "perJob": [_job_figures(job) for job in seen.jobs],
        "changes": changes,
        "moves": seen.migrations,
    }


def went_well(found: dict[str, Any]) -> bool:
    return bool(found["finishedInTime"] and found["succeeded"] == found["jobs"] and found["stepsLost"] == 0)


def text_report(found: dict[str, Any]) -> str:
    """A dozen lines."""
    moved, paused = found["migrationDowntimeSeconds"], found["downtimeSeconds"]
    lines = [
        "",
        f"{found['succeeded']} of {found['jobs']} jobs finished in {duration(found['tookSeconds'])}; "
        f"steps lost: {found['stepsLost']}",
        f"resizes {found['resizes']}, migrations {found['migrations']}, preemptions {found['preemptions']}, "
        f"restarts after failures {found['restarts']}",
    ]
    if moved:
        lines.append(f"downtime of a migration: median {moved['median']:.2f} s, longest {moved['max']:.2f} s")
    if paused:
        lines.append(f"downtime of any change:  median {paused['median']:.2f} s, longest {paused['max']:.2f} s")
    lines.append("")
    lines.append(f"{'JOB':<12}{'ENDED':<11}{'STEPS':>6}{'RESIZES':>9}{'MOVES':>7}{'LOST':>6}{'WAITED':>10}{'RAN':>12}")
    lines.extend(
        f"{job['name']:<12}{job['phase']:<11}{job['steps']:>6}{job['resizes']:>9}{job['migrations']:>7}"
        f"{job['stepsLost']:>6}{duration(job['waitingSeconds']):>10}{duration(job['runningSeconds']):>12}"
        for job in found["perJob"]
    )
    return "\n".join(lines)


def picture(seen: Seen) -> str:
    return timeline_plot(seen.slots, seen.stretches, seen.drained, title=TITLE)


def page(seen: Seen, found: dict[str, Any]) -> str:
    """One HTML file that needs nothing but itself."""
    heads = [(words, says) for words, says, _, _ in _JOB_COLUMNS]
    jobs = [[Cell(write(job[key]), job[key]) for _, _, key, write in _JOB_COLUMNS] for job in found["perJob"]]
    changes = [[Cell(text, value) for text, value in _change_cells(change)] for change in found["changes"]]
    parts = [
        facts(_facts(found)),
        f'<div class="wide">{picture(seen)}</div>',
        f"<h2>Jobs</h2>{sortable_table(heads, jobs)}",
        f"<h2>What was changed while they trained</h2>{sortable_table(_CHANGE_HEADS, changes)}",
    ]
    return html_page(TITLE, "\n".join(parts))


def _facts(found: dict[str, Any]) -> list[tuple[str, str]]:
    moved, paused = found["migrationDowntimeSeconds"], found["downtimeSeconds"]
    known = [
        ("jobs finished", f"{found['succeeded']} of {found['jobs']}"),
        ("took", duration(found["tookSeconds"])),
        ("steps lost", str(found["stepsLost"])),
        ("resizes", str(found["resizes"])),
        ("migrations", str(found["migrations"])),
        ("preemptions", str(found["preemptions"])),
        ("restarts after failures", str(found["restarts"])),
    ]
    for words, spread in (("a migration", moved), ("any change", paused)):
        if spread:
            known.append((f"downtime of {words}", f"median {spread['median']:.2f} s, longest {spread['max']:.2f} s"))
    return [*known, ("sterna", found["version"])]


def _change_cells(change: dict[str, Any]) -> list[tuple[str, Any]]:
    pause_s = change.get("downtimeSeconds")
    words = [str(change.get(key) or "") for key in ("job", "kind", "from", "to", "reason")]
    return [*((word, word) for word in words), ("" if pause_s is None else f"{pause_s:.2f} s", pause_s or 0.0)]


def _job_figures(job: Record) -> dict[str, Any]:
    return {
        "name": job["name"],
        "phase": job["phase"],
        "steps": job["step"],
        "resizes": job["resizes"],
        "migrations": job["migrations"],
        "stepsLost": job["stepsLost"],
        "waitingSeconds": job["waitingSeconds"],
        "runningSeconds": job["runningSeconds"],
        "message": job["message"],
    }


def _spread(values: list[float]) -> dict[str, float] | None:
    """None: nothing was measured."""
    return {"median": median(values), "max": max(values), "count": len(values)} if values else None


_JOB_COLUMNS: tuple[tuple[str, str, str, Callable[[Any], str]], ...] = (
    ("job", "its name", "name", str),
    ("ended", "how", "phase", str),
    ("steps", "trained, each exactly once", "steps", str),
    ("resizes", "how often its size changed", "resizes", str),
    ("moves", "how often it moved to another node", "migrations", str),
    ("lost", "steps that had to be trained again", "stepsLost", str),
    ("waited", "without workers", "waitingSeconds", duration),
    ("ran", "with workers", "runningSeconds", duration),
)
_CHANGE_HEADS = (
    ("job", "its name"),
    ("change", "what was done"),
    ("from", "nodes before"),
    ("to", "nodes after"),
    ("why", "the reason"),
    ("downtime", "how long it did not train"),
)
