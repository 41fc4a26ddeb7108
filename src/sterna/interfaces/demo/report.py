"""What the play showed: figures for programs, a few lines for a terminal, a page with the picture for a browser."""

from html import escape
from statistics import median
from typing import Any

from sterna import __version__
from sterna.interfaces.demo.play import Seen
from sterna.interfaces.plots.gpu_slots import timeline_plot
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
    rows = "".join(
        "<tr>"
        + "".join(f"<td>{escape(str(value))}</td>" for value in job.values() if not isinstance(value, dict))
        + "</tr>"
        for job in found["perJob"]
    )
    heads = "".join(f"<th>{escape(name)}</th>" for name in (found["perJob"][0] if found["perJob"] else {}))
    return _PAGE.format(
        title=escape(TITLE), summary=escape(text_report(found)), plot=picture(seen), heads=heads, rows=rows
    )


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


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none';style-src 'unsafe-inline'">
<title>{title}</title><style>
:root{{color-scheme:light dark}}
body{{font:15px/1.5 system-ui,sans-serif;max-width:960px;margin:2rem auto;padding:0 1rem}}
svg{{display:block;max-width:100%;height:auto;margin:1rem 0}}pre{{overflow-x:auto}}
table{{border-collapse:collapse;font-size:13px}}td,th{{padding:.25rem .5rem;text-align:right}}
</style></head><body><h1>{title}</h1>{plot}<pre>{summary}</pre>
<details><summary>All numbers</summary><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></details>
</body></html>
"""
