"""All generated pages and blocks: which file, and what is in it."""

import json
from pathlib import Path
from typing import Any

import sterna
from sterna.interfaces.plots.storeys import storeys_plot
from sterna.interfaces.plots.walk import walk_plot
from sterna.interfaces.reference.architecture import contracts, rooms_block, storeys, storeys_block, walks_block
from sterna.interfaces.reference.blocks import filled, table
from sterna.interfaces.reference.commands import commands_page
from sterna.interfaces.reference.manifest_fields import job_fields_block, pod_fields_block
from sterna.interfaces.reports.policy_list import policy_facts
from sterna.interfaces.reports.rebalancer_list import common_facts, rebalancer_facts
from sterna.model.phases import FINISHED, TRANSITIONS, Phase
from sterna.model.why import Because, Why
from sterna.placement.rebalancers.registry import REBALANCERS
from sterna.policies.registry import ENTRIES, PolicyEntry

_NOTE = "<!-- Written by `python -m sterna.interfaces.reference docs`; edit the code instead. -->\n\n"
_ROOMS = ("engines", "engines/kubernetes", "engines/local", "engines/simulator", "lifecycle", "training")


def generated(docs: Path) -> dict[Path, str]:
    """Every file under `docs` that is generated, in whole or in part, with what it should hold."""
    pages = {
        docs / "reference" / "commands.md": _NOTE + commands_page(),
        docs / "reference" / "policies.md": _NOTE + _policies_page(),
        docs / "reference" / "rebalancers.md": _NOTE + _rebalancers_page(),
        docs / "reference" / "reasons.md": _NOTE + _reasons_page(),
        docs / "reference" / "lifecycle.md": _NOTE + _lifecycle_page(),
        docs / "reference" / "snapshot.schema.json": _schema(),
    }
    for entry in ENTRIES:
        path = docs / "policies" / f"{entry.name}.md"
        pages[path] = filled(path.read_text(encoding="utf-8"), "options", options_table(entry))
    index = docs / "policies" / "README.md"
    pages[index] = filled(index.read_text(encoding="utf-8"), "policies", _policies_table())
    operations = docs / "operations.md"
    pages[operations] = filled(operations.read_text(encoding="utf-8"), "reasons", _reasons_table())
    manifests = docs / "manifests.md"
    words = filled(manifests.read_text(encoding="utf-8"), "pod-fields", pod_fields_block())
    pages[manifests] = filled(words, "job-fields", job_fields_block())
    return pages | _architecture(docs)


def _architecture(docs: Path) -> dict[Path, str]:
    """The page about the house, and its pictures. The walks are drawn from what the benchmark last wrote."""
    package, page, images = Path(sterna.__file__).parent, docs / "architecture.md", docs / "images"
    rules = contracts(docs.parent / "pyproject.toml")
    walks: dict[str, dict[str, Any]] = json.loads((images / "walk.json").read_text(encoding="utf-8"))
    words = filled(page.read_text(encoding="utf-8"), "storeys", storeys_block(rules, package))
    words = filled(words, "rooms", rooms_block(package, _ROOMS))
    words = filled(words, "walks", walks_block(walks))
    pages = {page: words, images / "storeys.svg": storeys_plot([one.packages for one in storeys(rules)]) + "\n"}
    pages |= {images / f"walk-{name}.svg": walk_plot(walk) + "\n" for name, walk in walks.items()}
    return pages


def options_table(entry: PolicyEntry) -> str:
    """For `--set`. Policies without options say so."""
    return _options(policy_facts(entry)["options"])


def _options(options: list[dict[str, Any]]) -> str:
    if not options:
        return "None."
    rows = [(f"`{one['name']}`", one["default"] or "(empty)", one["values"], one["doc"]) for one in options]
    return table(("option", "default", "values", "meaning"), rows)


def _policies_table() -> str:
    rows = [
        (f"[{entry.name}]({entry.name}.md)", _yes(entry.elastic), _yes(entry.needs_speed), entry.summary)
        for entry in ENTRIES
    ]
    return table(("policy", "elastic", "looks at speed", "in one line"), rows)


def _yes(fact: bool) -> str:
    return "yes" if fact else "no"


def _policies_page() -> str:
    parts = ["# Policies and their options", "Set with `--set key=value`, or in `compare` as `policy:key=value`."]
    for entry in ENTRIES:
        also = f" Also called: {', '.join(entry.aliases)}." if entry.aliases else ""
        parts += [f"## {entry.name}", f"{entry.summary}.{also} Placement: `{entry.placement}`.", options_table(entry)]
    return "\n\n".join(parts) + "\n"


def _rebalancers_page() -> str:
    words = (
        "Set with `--rebalance-set key=value`; the part before the dot may be left out where no other has the option."
    )
    parts = ["# Rebalancers and their options", words]
    for entry in REBALANCERS:
        own = [option for option in rebalancer_facts(entry)["options"] if option not in common_facts()]
        parts += [f"## {entry.name}", f"{entry.summary}.".capitalize(), _options(own)]
    parts += ["## All of them", "The budget of moves and the cost model.", _options(common_facts())]
    return "\n\n".join(parts) + "\n"


def _reasons_table() -> str:
    return table(("reason", "said of a job"), [(f"`{why}`", Because(why).sentence) for why in Why])


def _reasons_page() -> str:
    head = "# Reasons\n\nEvery decision about a job carries one of these, the same word in every interface.\n\n"
    return head + _reasons_table() + "\n"


def _lifecycle_page() -> str:
    rows = [(f"{before}", f"{trigger}", f"{following}") for (before, trigger), following in TRANSITIONS.items()]
    ends = " and ".join(f"`{phase}`" for phase in Phase if phase in FINISHED)
    head = f"# A job's life\n\nWhat is not in this table cannot happen. Nothing leads out of {ends}.\n\n"
    return head + table(("a job that is", "and is", "becomes"), rows) + "\n"


def _schema() -> str:
    from sterna.wire.snapshot_file import snapshot_schema

    return json.dumps(snapshot_schema(), indent=2) + "\n"
