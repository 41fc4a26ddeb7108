"""The models `pollux` and `sia`: profiled training of the six applications both simulators share.

Sia has a profile for each GPU type and, unless switched off there, its own restart costs and calibration factors; both
are options here. How a job trains on a profile is `profiled.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from sterna.engines.simulator.models.profiled import ProfiledTraining, predicted_curve
from sterna.engines.simulator.models.profiles import Profile, read_profile
from sterna.engines.simulator.models.row_specs import SIZING_DOC, BuildJob, Sizing, Sources, known, spec_of
from sterna.engines.simulator.training import SimulatedJob
from sterna.model.curves import SpeedupCurve
from sterna.model.errors import InvalidRequest
from sterna.model.ids import NodeId
from sterna.model.trace import TraceRow
from sterna.policies.options import option

LOCAL_BATCH_MAX: Mapping[str, int] = {"yolov3": 8}  # larger ones were measured but do not train on the T4
ONE_WORKER = frozenset({"ncf"})  # gains nothing from a second one, so elastic policies are not offered any
RESTART_S: Mapping[str, float] = {
    "cifar10": 50, "deepspeech2": 25, "bert": 120, "yolov3": 80, "imagenet": 250, "ncf": 15,
}  # fmt: skip
SLOWDOWNS: Mapping[str, float] = {"cifar10": 1.8, "ncf": 1.5}
OTHER_SLOWDOWN = 1.2
WHAT = "the directory of profiles, with one directory for each application"


class Told(StrEnum):
    EPOCHS = "epochs"
    PROGRESS = "progress"


TOLD_DOC = "work left as policies see it: epochs (as published: whole epochs after this one) or progress (exact)"
PACKED_DOC = "how many workers the speed that policies are told assumes on a node"


@dataclass(frozen=True, slots=True)
class PolluxOptions:
    sizing: Sizing = option(Sizing.MODEL, SIZING_DOC)
    told: Told = option(Told.EPOCHS, TOLD_DOC)
    gpus_per_node: int = option(4, PACKED_DOC, at_least=1)


@dataclass(frozen=True, slots=True)
class SiaOptions:
    sizing: Sizing = option(Sizing.MODEL, SIZING_DOC)
    told: Told = option(Told.EPOCHS, TOLD_DOC)
    gpus_per_node: int = option(4, PACKED_DOC, at_least=1)
    accelerator: str = option("aws", "GPU type of nodes that name none: aws, azure, dgx, dgx-ext, quad or rtx")
    own_restarts: bool = option(False, "true: each application's own restart seconds instead of the simulation's")
    slowdowns: bool = option(False, "true: divide goodput by Sia's calibration factors")


def pollux(options: PolluxOptions, sources: Sources) -> BuildJob:
    profiles = _profiles(sources.require_profiles(what=WHAT))
    return _builder(options, lambda application: (profiles(application, ""), {}))


def sia(options: SiaOptions, sources: Sources) -> BuildJob:
    profiles = _profiles(sources.require_profiles(what=WHAT))

    @cache
    def of(application: str) -> tuple[Profile, Mapping[NodeId, Profile]]:
        types = {node.id: node.accelerator for node in sources.nodes if node.accelerator in TYPES}
        return profiles(application, options.accelerator), {node: profiles(application, t) for node, t in types.items()}

    build = _builder(options, of, slowdown=_slowdown if options.slowdowns else lambda application: 1.0)
    if not options.own_restarts:
        return build
    return lambda row: _with_own_restart(build(row))


TYPES = frozenset({"aws", "azure", "dgx", "dgx-ext", "quad", "rtx"})


def _profiles(directory: Path) -> Callable[[str, str], Profile]:
    """Profiles by application and GPU type, each read once and when it is first wanted."""
    applications = sorted(entry.name for entry in directory.iterdir() if entry.is_dir()) if directory.is_dir() else []

    @cache
    def of(application: str, accelerator: str) -> Profile:
        if application not in applications:
            expected = "one of: " + ", ".join(applications) if applications else WHAT
            raise InvalidRequest(field="application", value=application, expected=expected)
        limit = LOCAL_BATCH_MAX.get(application)
        return read_profile(directory / application, accelerator=accelerator, local_batch_max=limit)

    return of


def _builder(
    options: PolluxOptions | SiaOptions,
    profiles_of: Callable[[str], tuple[Profile, Mapping[NodeId, Profile]]],
    *,
    slowdown: Callable[[str], float] = lambda application: 1.0,
) -> BuildJob:
    @cache
    def curve_of(application: str, batch: int, workers_max: int) -> SpeedupCurve:
        profile, _ = profiles_of(application)
        return predicted_curve(profile, batch, workers_max=workers_max, gpus_per_node=options.gpus_per_node)

    def build(row: TraceRow) -> SimulatedJob:
        batch = int(known(row.batch_size, field="batch_size", model="pollux"))
        profile, by_node = profiles_of(row.category)
        least, most = (row.workers, row.workers)
        if options.sizing is Sizing.MODEL:
            least, most = 1, 1 if row.category in ONE_WORKER else max(1, batch // profile.local_batch_min)
        training = ProfiledTraining(
            profile,
            batch,
            curve=curve_of(row.category, batch, most),
            by_node=by_node,
            slowdown=slowdown(row.category),
            whole_epochs=options.told is Told.EPOCHS,
        )
        return SimulatedJob(spec_of(row, workers_min=least, workers_max=most), training)

    return build


def _slowdown(application: str) -> float:
    return SLOWDOWNS.get(application, OTHER_SLOWDOWN)


def _with_own_restart(job: SimulatedJob) -> SimulatedJob:
    return SimulatedJob(job.spec, job.training, RESTART_S.get(job.spec.category))
