"""A workload like that of SpeCon's experiment: fifty short trainings on CPUs that arrive within minutes. Rows only.

What is published: four nodes, fifty jobs, and how long each took under Kubernetes' own scheduler (217 to 1048 s). The
arrivals, the models' run times and their learning curves are not, so they are free here. They were chosen so that the
times without migration span what is published and so that work is uneven: five small models and a large one, which a
placement that counts pods cannot tell apart. `docs/specon.md` says what other choices give.

The same arguments give the same rows everywhere: chance is a stream of uniform numbers, as in `generate.py`.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sterna.engines.simulator.generate import JOBS_LIMIT
from sterna.model.errors import InvalidRequest
from sterna.model.ids import JobId
from sterna.model.trace import EvaluationCurve, TraceRow

SLOW = 10.0  # a model has converged, as SpeCon's threshold of 0.1 sees it, once it grows so many times slower


class Model(NamedTuple):
    """A kind of training: how long it takes alone on a node, and when it has learned nearly all it will."""

    name: str
    alone_s: float
    cpus: float  # that it can use
    converges_after: float  # the share of its work after which it grows ten times slower than at the start
    start: float  # of its evaluation value, and its end
    end: float


MODELS: tuple[Model, ...] = (
    Model("lenet", 240.0, 1.0, 0.80, 0.10, 0.99),  # accuracy; the others' values are losses
    Model("birnn", 255.0, 1.0, 0.70, 2.3, 0.1),
    Model("gru", 270.0, 1.0, 0.60, 6.9, 4.7),
    Model("vae", 285.0, 1.0, 0.60, 540.0, 105.0),
    Model("cnn", 300.0, 1.0, 0.50, 2.3, 0.4),
    Model("lstm", 260.0, 8.0, 0.25, 9.2, 4.5),  # the large one: uses every CPU it gets, and trains on long after
)

FITTED_MODELS: tuple[Model, ...] = (  # another mix, whose times without moves are the published ones almost one by one
    Model("lenet", 215.0, 1.0, 0.80, 0.10, 0.99),
    Model("gru", 320.0, 1.0, 0.70, 6.9, 4.7),
    Model("birnn", 260.0, 2.0, 0.50, 0.11, 0.97),
    Model("vae", 210.0, 4.0, 0.40, 540.0, 105.0),
    Model("lstm", 180.0, 8.0, 0.30, 9.2, 4.5),
)
FITTED_SEED = 16  # of seeds 1 to 40 the one whose times without moves are nearest to the published ones

JOBS = 50
NODES = 4
CPUS_PER_NODE = 8
ARRIVE_WITHIN_S = 300.0
JITTER = 0.10  # a job is up to so much more or less work than its model's usual
UNEVEN_SEED = 33  # of seeds 1 to 60 the one whose times without moves span most nearly what is published


def specon_jobs(
    *,
    jobs: int = JOBS,
    arrive_within_s: float = ARRIVE_WITHIN_S,
    seed: int = UNEVEN_SEED,
    models: Sequence[Model] = MODELS,
) -> tuple[TraceRow, ...]:
    """So many jobs, each of a model drawn by lot, arriving at any moment within the window; in order of arrival."""
    if not 1 <= jobs <= JOBS_LIMIT:
        raise InvalidRequest(field="jobs", value=jobs, expected=f"from 1 to {JOBS_LIMIT}")
    if seed < 0:
        raise InvalidRequest(field="seed", value=seed, expected="a whole number, at least 0")
    chance = np.random.Generator(np.random.PCG64(seed)).random((3, jobs))
    arrivals = sorted(round(float(moment) * arrive_within_s, 1) for moment in chance[0])
    return tuple(
        _row(number, submitted_s, models[int(chance[1, number] * len(models))], float(chance[2, number]))
        for number, submitted_s in enumerate(arrivals)
    )


def fitted_jobs() -> tuple[TraceRow, ...]:
    """The draw that is nearest to what was published, job by job."""
    return specon_jobs(seed=FITTED_SEED, models=FITTED_MODELS)


def _row(number: int, submitted_s: float, model: Model, lot: float) -> TraceRow:
    work = round(model.alone_s * (1 + JITTER * (2 * lot - 1)), 1)
    rate = math.log(SLOW) / (model.converges_after * model.alone_s)
    return TraceRow(
        id=JobId(f"job-{number:06}"),
        line=0,
        submitted_s=submitted_s,
        workers=1,
        workers_min=1,
        workers_max=1,
        gpu_milli=0,
        duration_s=work,
        category=model.name,
        name=f"job{number + 1}",
        cpu_demand_milli=round(model.cpus * 1000),
        evaluation=EvaluationCurve(model.start, model.end, round(rate, 6)),
    )
