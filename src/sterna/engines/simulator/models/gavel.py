"""Gavel's throughputs: steps per second by job type, number of workers, GPU type, and one node or several.

Shockwave's files have the same shape; its changes of batch size during a run are not modelled, so each job keeps the
throughput of the batch size it starts with. Sharing one GPU between two jobs is not modelled either.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from sterna.engines.simulator.models.json_numbers import is_positive, mapping_at, read_json
from sterna.engines.simulator.models.paced import TypeCurves, TypedTraining
from sterna.engines.simulator.models.row_specs import SIZING_DOC, BuildJob, Sizing, Sources, known, spec_of
from sterna.engines.simulator.training import SimulatedJob
from sterna.model.curves import SpeedupCurve
from sterna.model.errors import InvalidRequest
from sterna.model.ids import NodeId
from sterna.model.trace import TraceRow
from sterna.policies.options import option

FILES = ("simulation_throughputs.json", "tacc_throughputs.json")  # tried in this order where a directory is given
SEVERAL_NODES = "_unconsolidated"  # how the files mark the throughputs of workers that are spread out

Rates = Mapping[str, Mapping[int, float]]  # steps per second by job type and number of workers


@dataclass(frozen=True, slots=True)
class GavelOptions:
    sizing: Sizing = option(Sizing.REQUEST, SIZING_DOC)
    accelerator: str = option("v100", "GPU type of nodes that name none of v100, p100 and k80")


def gavel(options: GavelOptions, sources: Sources) -> BuildJob:
    """Units are steps. Sizes that were not measured lie on the line between those that were."""
    path = sources.require_profiles(what=f"a file of throughputs, or a directory with {' or '.join(FILES)}")
    types = _read_types(_file(path))
    if options.accelerator not in types:
        expected = "one of: " + ", ".join(sorted(types))
        raise InvalidRequest(field="model gavel: accelerator", value=options.accelerator, expected=expected)
    nodes = {node.id: node.accelerator for node in sources.nodes if node.accelerator in types}

    def build(row: TraceRow) -> SimulatedJob:
        usual = types[options.accelerator].get(row.category)
        if usual is None:
            expected = f"a job type with throughputs on {options.accelerator}"
            raise InvalidRequest(field="job_type", value=row.category, expected=expected)
        if row.workers > usual.one_node.known_to:
            expected = f"at most {usual.one_node.known_to}: more were not measured on {options.accelerator}"
            raise InvalidRequest(field="scale_factor", value=row.workers, expected=expected)
        steps = known(row.units, field="total_steps", model="gavel")
        by_node = _curves_by_node(types, nodes, row.category)
        rigid = options.sizing is Sizing.REQUEST
        least, most = (row.workers, row.workers) if rigid else (1, usual.one_node.known_to)
        spec = spec_of(row, workers_min=least, workers_max=most)
        return SimulatedJob(spec, TypedTraining(steps, usual, by_node))

    return build


def _curves_by_node(
    types: Mapping[str, Mapping[str, TypeCurves]], nodes: Mapping[NodeId, str], category: str
) -> dict[NodeId, TypeCurves]:
    by_type = {name: curves[category] for name, curves in types.items() if category in curves}
    return {node: by_type[name] for node, name in nodes.items() if name in by_type}


def _read_types(path: Path) -> dict[str, dict[str, TypeCurves]]:
    rates = {name: _rates(entries) for name, entries in mapping_at(read_json(path), path=path).items()}
    types: dict[str, dict[str, TypeCurves]] = {}
    for name, by_job in rates.items():
        if name.endswith(SEVERAL_NODES):
            continue
        spread: Rates = rates.get(name + SEVERAL_NODES, {})
        types[name] = {
            job: TypeCurves(_curve(known_rates), _curve({**known_rates, **spread.get(job, {})}))
            for job, known_rates in by_job.items()
        }
    return types


def _rates(entries: Any) -> dict[str, dict[int, float]]:
    """Isolated throughputs; keys look like "('LM (batch size 5)', 2)". A rate of 0 means that it does not fit there."""
    rates: dict[str, dict[int, float]] = {}
    for key, entry in entries.items() if isinstance(entries, dict) else ():
        try:
            job, workers = ast.literal_eval(key)
            rate = entry["null"]
        except (SyntaxError, TypeError, ValueError, KeyError):
            raise InvalidRequest(field="profiles", value=key, expected="('job type', workers) with a rate") from None
        if is_positive(rate) and isinstance(workers, int) and 0 < workers <= 1024:
            rates.setdefault(str(job), {})[workers] = float(rate)
    return rates


def _curve(rates: Mapping[int, float]) -> SpeedupCurve:
    """Pace at 1, 2, ... workers up to the largest number measured; no worker makes no step."""
    paces: list[float] = []
    for (low, at_low), (high, at_high) in pairwise([(0, 0.0), *sorted(rates.items())]):
        gained = (at_high - at_low) / (high - low)
        paces += [1.0 / (at_low + gained * (workers - low)) for workers in range(low + 1, high)]
        paces.append(1.0 / at_high)
    return SpeedupCurve(tuple(paces))


def _file(path: Path) -> Path:
    if not path.is_dir():
        return path
    return next((path / name for name in FILES if (path / name).exists()), path / FILES[0])
