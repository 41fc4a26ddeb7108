"""Models from tables of measured speed: AFS' seconds per iteration, and Voda's testbed.

Both count workers only; where these are makes no difference. AFS' table must be given, Voda's few numbers are here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sterna.engines.simulator.models.json_numbers import mapping_at, numbers_at, read_json
from sterna.engines.simulator.models.paced import PacedTraining
from sterna.engines.simulator.models.row_specs import SIZING_DOC, BuildJob, Sizing, Sources, known, spec_of
from sterna.engines.simulator.training import SimulatedJob
from sterna.model.curves import SpeedupCurve
from sterna.model.errors import InvalidRequest
from sterna.model.trace import TraceRow
from sterna.policies.options import option

# Speed-ups at 1 to 4 GPUs, and seconds of work on one: a fit of both recorded runs of the testbed.
VODA_SPEEDUPS: Mapping[str, Sequence[float]] = {
    "vgg16": (1, 1.785, 2.5, 3.125),
    "resnet50": (1, 1.857, 2.6, 3.25),
    "inceptionv3": (1, 1.842, 2.692, 3.5),
    "transformer": (1, 1.657, 2.148, 2.521),
}
VODA_WORK_S: Mapping[str, float] = {"vgg16": 1214, "resnet50": 1267, "inceptionv3": 3800, "transformer": 2213}


@dataclass(frozen=True, slots=True)
class TableOptions:
    sizing: Sizing = option(Sizing.MODEL, SIZING_DOC)


def afs(options: TableOptions, sources: Sources) -> BuildJob:
    """Units are iterations. A job's maximum is its request, or what its model scales to; its minimum is always 1."""
    what = "the file (or its directory) afs_scaling_curves.json: seconds per iteration by GPU count, model by model"
    curves = _afs_curves(_file(sources.require_profiles(what=what), "afs_scaling_curves.json"))

    def build(row: TraceRow) -> SimulatedJob:
        curve = curves.get(row.category)
        if curve is None:
            raise _unknown(row.category, curves)
        iterations = known(row.units, field="iterations", model="afs")
        most = row.workers if options.sizing is Sizing.REQUEST else curve.known_to
        return SimulatedJob(spec_of(row, workers_min=1, workers_max=most), PacedTraining(iterations, curve))

    return build


def voda(options: TableOptions, sources: Sources) -> BuildJob:
    """Units are seconds on a single GPU; bounds come from the workload. Costs of changes are the simulation's."""
    speedups, work_s = VODA_SPEEDUPS, VODA_WORK_S
    if sources.profiles is not None:
        speedups, work_s = _voda_files(sources.require_profiles(what="the directory of speedup.json"))
    curves = {name: SpeedupCurve.from_speedups(values) for name, values in speedups.items() if name in work_s}

    def build(row: TraceRow) -> SimulatedJob:
        curve = curves.get(row.category.lower())
        if curve is None:
            raise _unknown(row.category, curves)
        least, most = row.workers, row.workers
        if options.sizing is Sizing.MODEL:
            least = 1 if row.workers_min is None else row.workers_min
            most = max(row.workers, curve.known_to) if row.workers_max is None else row.workers_max
        training = PacedTraining(work_s[row.category.lower()], curve)
        return SimulatedJob(spec_of(row, workers_min=least, workers_max=most), training)

    return build


def _afs_curves(path: Path) -> dict[str, SpeedupCurve]:
    models = mapping_at(read_json(path), path=path)
    return {
        name: SpeedupCurve(numbers_at(mapping_at(model, path=path, at=name), "time_per_iter_s", path=path, at=name))
        for name, model in models.items()
    }


def _voda_files(directory: Path) -> tuple[dict[str, tuple[float, ...]], dict[str, float]]:
    speedup_path, fit_path = directory / "speedup.json", directory / "calibration_fit.json"
    by_model = mapping_at(mapping_at(read_json(speedup_path), path=speedup_path).get("speedup"), path=speedup_path)
    work = mapping_at(mapping_at(read_json(fit_path), path=fit_path).get("single_gpu_work_s"), path=fit_path)
    speedups = {name: numbers_at(by_model, name, path=speedup_path, at="speedup") for name in by_model}
    return speedups, {name: numbers_at({name: [value]}, name, path=fit_path)[0] for name, value in work.items()}


def _file(path: Path, name: str) -> Path:
    return path / name if path.is_dir() else path


def _unknown(category: str, known_models: Mapping[str, Any]) -> InvalidRequest:
    return InvalidRequest(field="model", value=category, expected="one of: " + ", ".join(sorted(known_models)))
