"""The public trace files, where they are at hand: how many rows each has, and facts that are known of them."""

import pytest

from sterna.wire.traces.trace_reading import read_trace
from tests.traces import trace_path


@pytest.mark.parametrize(
    ("name", "kind", "rows"),
    [
        ("tiresias/60_job.csv", "tiresias", 60),
        ("tiresias/480_job_synth.csv", "tiresias", 480),
        ("tiresias/muri_trace2_sec.csv", "tiresias", 5755),
        ("tiresias/muri_trace3_sec.csv", "tiresias", 992),
        ("tiresias/tf_job.csv", "tiresias", 2),
        ("muri/trace2.csv", "muri", 5755),
        ("muri/trace3.csv", "muri", 992),
        ("muri/cluster_trace_400.csv", "muri", 400),
        ("afs/tiresias240.csv", "afs", 240),
        ("afs/philly-0e4a51.csv", "afs", 1435),
        ("afs/philly-ee9e8c.csv", "afs", 1488),
        ("afs/philly-103959.csv", "afs", 1934),
        ("pollux/workloads/workload-6.csv", "pollux", 160),
        ("pollux/workloads-0.5/workload-6.csv", "pollux", 80),
        ("sia/workloads/newtrace/workload-1.csv", "pollux", 960),
        ("elasticflow-itp/195job.csv", "elasticflow-itp", 195),
        ("gavel/traces/minimize_makespan.csv", "gavel", 100),
        ("gavel/traces/max_min_fairness.csv", "gavel", 96),
        ("shockwave/shockwave_120jobs_100.csv", "shockwave", 120),
        ("voda-testbed/workload_run_1.csv", "voda-testbed", 24),
        ("alibaba-gpu-2023/openb_pod_list_default.csv", "alibaba-gpu-2023", 8152),
        ("alibaba-gpu-2023/openb_pod_list_multigpu50.csv", "alibaba-gpu-2023", 9061),
    ],
)
def test_every_row_of_a_public_trace_is_read(name, kind, rows):
    trace = read_trace(trace_path(name))
    assert (trace.format, len(trace.rows), trace.problems) == (kind, rows, ())
    assert [row.id for row in trace.rows] == sorted(row.id for row in trace.rows)


def test_all_itp_clusters_together_have_the_jobs_that_were_published():
    paths = sorted(trace_path("elasticflow-itp").glob("cluster*.csv"))
    traces = [read_trace(path) for path in paths]
    assert sum(len(trace.rows) for trace in traces) == 69_351
    assert all(min(row.submitted_s for row in trace.rows) == 0 for trace in traces)


def test_all_of_philly_is_read():
    path = trace_path("philly/philly_jobs.csv")
    trace = read_trace(path)
    assert (len(trace.rows), trace.problems) == (82_247, ())
    assert min(row.submitted_s for row in trace.rows) == 0
    assert sum(row.workers == 1 for row in trace.rows) / len(trace.rows) == pytest.approx(0.93, abs=0.01)


def test_muri_in_milliseconds_and_in_seconds_is_the_same_trace():
    milli, whole = (read_trace(trace_path(name)) for name in ("muri/trace3.csv", "tiresias/muri_trace3_sec.csv"))
    assert [(row.submitted_s, row.workers, row.duration_s) for row in milli.rows] == [
        (row.submitted_s, row.workers, row.duration_s) for row in whole.rows
    ]


def test_alibaba_has_shares_whole_gpus_and_pods_without_any():
    rows = read_trace(trace_path("alibaba-gpu-2023/openb_pod_list_default.csv")).rows
    assert sum(row.gpu_milli == 0 for row in rows) == 1088
    assert sum(0 < row.gpu_milli < 1000 for row in rows) == 3078
    assert sum(row.duration_s is None for row in rows) == 897  # never scheduled
