"""Small simulation results written out by hand, for tests of what people see."""

from sterna.engines.simulator.results import JobRecord, Sample, Segment, SimulationResult


def record(
    name: str,
    *,
    submitted_s: float = 0.0,
    runs: tuple[tuple[float, float, int], ...] = (),
    done: bool = True,
    **more: object,
) -> JobRecord:
    """A job that held `workers` in each `(from_s, to_s, workers)`; it finishes with the last of them unless told."""
    segments = tuple(Segment(from_s, to_s, workers, ("node-000",)) for from_s, to_s, workers in runs)
    values: dict[str, object] = {
        "id": name,
        "category": "",
        "submitted_s": submitted_s,
        "first_started_s": runs[0][0] if runs else None,
        "finished_s": runs[-1][1] if runs and done else None,
        "gpu_s": sum((to_s - from_s) * workers for from_s, to_s, workers in runs),
        "ran_s": sum(to_s - from_s for from_s, to_s, _ in runs),
        "lost_s": 0.0,
        "resizes": 0,
        "migrations": 0,
        "preemptions": 0,
        "segments": segments,
    }
    return JobRecord(**(values | more))  # type: ignore[arg-type]


def result(policy: str = "fifo", trace: str = "tiny", *, slower: float = 1.0, jobs: int = 3) -> SimulationResult:
    """`jobs` jobs, one after another on 4 GPUs, each `slower` times a minute long."""
    length_s = 60.0 * slower
    records = tuple(
        record(f"job-{number:03}", submitted_s=number * slower, runs=((number * length_s, (number + 1) * length_s, 2),))
        for number in range(jobs)
    )
    busy = tuple(Sample(number * length_s, 2.0, 4.0, 1, jobs - number - 1) for number in range(jobs))
    samples = (*busy, Sample(jobs * length_s, 0.0, 4.0, 0, 0))
    return SimulationResult(
        policy=policy, trace=trace, records=records, samples=samples, decision_s=(0.001, 0.002), cycles=2 * jobs
    )
