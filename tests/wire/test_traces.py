"""Every trace format: a few rows written here, what is told of bad rows, and how a format is recognised."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.model.errors import InvalidRequest
from sterna.model.ids import JobId
from sterna.model.trace import Trace, TraceRow
from sterna.wire.traces.formats import FORMATS
from sterna.wire.traces.own import dump_rows
from sterna.wire.traces.trace_reading import parse_trace, read_trace

TIRESIAS = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"


def parse(text: str, kind: str | None = None) -> Trace:
    return parse_trace(text.splitlines(keepends=True), name="here", format=kind)


def row(number: int = 0, line: int = 2, **fields: object) -> TraceRow:
    return TraceRow(id=JobId(f"job-{number:06}"), line=line, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        pytest.param(
            TIRESIAS + "7,4,30,900,vgg16,120,15\n",
            "tiresias",
            row(submitted_s=30, workers=4, duration_s=120, units=900, category="vgg16", name="7"),
            id="tiresias: times are kept as they are, although the first job is not at 0",
        ),
        pytest.param(
            "job_id,num_gpu,submit_time,start_time,duration,model_size,aggr_interval,model_name,model_scale\n"
            "3,12,11,14,20,400,0,vgg19,1",
            "tiresias",
            row(submitted_s=11, workers=12, duration_s=20, category="vgg19", name="3"),
            id="tiresias: the older columns, without iterations and without a last newline",
        ),
        pytest.param(
            "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,"
            "resource_time_0,resource_time_1,resource_time_2,priority\n0,2,1500,10,gpt2,4,90000,0,437,0.6,4,9,0\n",
            "muri",
            row(submitted_s=1.5, workers=2, duration_s=90, units=10, category="gpt2", batch_size=4, name="0"),
            id="muri: milliseconds become seconds",
        ),
        pytest.param(
            "job_id,arrival_s,model,iterations,req_gpus,model_max_gpus,duration_at_req_gpus_s\n0,5,Net,12.5,4,20,88.5\n",
            "afs",
            row(submitted_s=5, workers=4, duration_s=88.5, units=12.5, category="Net", name="0"),
            id="afs: iterations need not be whole",
        ),
        pytest.param(
            "name,time,application,num_replicas,batch_size\nbert-0,12.5,bert,8,384\n",
            "pollux",
            row(submitted_s=12.5, workers=8, category="bert", batch_size=384, name="bert-0"),
            id="pollux and sia: no duration, but a batch size",
        ),
        pytest.param(
            "timestamp,duration,num_gpus,gpu_time,cluster\n"
            "2017-10-09 07:00:10,66.0,1,66.0,abc\n2017-10-09 07:00:00,5,2,10,abc\n\n",
            "philly",
            row(submitted_s=10, workers=1, duration_s=66, category="abc"),
            id="philly: seconds since the earliest job, which need not be the first; a blank line is no row",
        ),
        pytest.param(
            "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n"
            "u-1,1000,50,bert,1400,128,16,300\n",
            "elasticflow-itp",
            row(
                submitted_s=0, workers=16, duration_s=300, units=50, category="bert", batch_size=128, deadline_s=400,
                name="u-1",
            ),
            id="elasticflow-itp: deadlines are counted from the first job as well",
        ),
        pytest.param(
            "job_id,job_type,total_steps,scale_factor,priority_weight,SLO,arrival_time\n"
            "0,LM (batch size 5),70,2,1,-1,9\n",
            "gavel",
            row(submitted_s=9, workers=2, units=70, category="LM (batch size 5)", name="0"),
            id="gavel: steps of a job type",
        ),
        pytest.param(
            "job_id,job_type,total_steps,scale_factor,mode,priority_weight,SLO,duration,arrival_time\n"
            "0,LM (batch size 5),70,2,gns,1,-1,33,9\n",
            "shockwave",
            row(submitted_s=9, workers=2, duration_s=33, units=70, category="LM (batch size 5)", name="0"),
            id="shockwave: as gavel, with a duration",
        ),
        pytest.param(
            "job_id,model,submit_time,interval,num_proc,min_proc,max_proc,epochs\n0,vgg16,22,5,2,1,4,50\n",
            "voda-testbed",
            row(
                submitted_s=22, workers=2, workers_min=1, workers_max=4, units=50, category="vgg16", name="0",
            ),
            id="voda-testbed: bounds come with the workload",
        ),
        pytest.param(
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
            "scheduled_time\np0,6000,2,1,460,T4,LS,Running,100,400,150\n",
            "alibaba-gpu-2023",
            row(
                submitted_s=100, workers=1, workers_min=1, workers_max=1, gpu_milli=460, cpu_milli=6000,
                memory_bytes=2 << 20, duration_s=250, category="LS", accelerator="T4", name="p0",
            ),
            id="alibaba: a share of a GPU, from the moment it was scheduled",
        ),
        pytest.param(
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,6000,2,8,1000\n",
            "alibaba-gpu-2023",
            row(
                submitted_s=0, workers=1, workers_min=1, workers_max=1, gpu_milli=8000, cpu_milli=6000,
                memory_bytes=2 << 20, name="p0",
            ),
            id="alibaba: a pod with eight GPUs is one worker; files without times are read too",
        ),
        pytest.param(
            "workers,duration_s,submitted_s\n2.0,30,1\n",
            "sterna",
            row(submitted_s=1, workers=2, duration_s=30),
            id="sterna: three columns in any order will do, and a spreadsheet's 2.0 is a 2",
        ),
    ],
)  # fmt: skip
def test_a_row_of_each_format(text, kind, expected):
    trace = parse(text)
    assert (trace.format, trace.rows[0], trace.problems) == (kind, expected, ())
    assert parse(text, kind).rows == trace.rows


def test_every_format_is_shown_by_an_example():
    cases = test_a_row_of_each_format.pytestmark[0].args[1]
    assert {case.values[1] for case in cases} == {known.name for known in FORMATS}


@pytest.mark.parametrize(
    ("cells", "field", "value"),
    [
        pytest.param("1,,5,9,m,60,0", "num_gpu", "", id="a hole"),
        pytest.param("1,two,5,9,m,60,0", "num_gpu", "two", id="a word where a number should be"),
        pytest.param("1,0,5,9,m,60,0", "num_gpu", "0", id="no GPU at all"),
        pytest.param("1,1.5,5,9,m,60,0", "num_gpu", "1.5", id="one and a half GPUs"),
        pytest.param("1,99999999999,5,9,m,60,0", "num_gpu", "99999999999", id="more GPUs than the world has"),
        pytest.param("1,1e400,5,9,m,60,0", "num_gpu", "1e400", id="a count beyond all numbers"),
        pytest.param("1,2,-5,9,m,60,0", "submit_time", "-5", id="submitted before time began"),
        pytest.param("1,2,nan,9,m,60,0", "submit_time", "nan", id="a time that is not a number"),
        pytest.param("1,2,5,9,m,inf,0", "duration", "inf", id="a job that never ends"),
        pytest.param("1,2,5,9,m,1e300,0", "duration", "1e300", id="a job that ends long after the sun"),
        pytest.param("1,2,5,9,m", "row", "5 cells", id="a row that breaks off"),
        pytest.param("1,2,5,9,m,60,0,8", "row", "8 cells", id="a row with a cell too many"),
        pytest.param('1,2,5,"9,m,60,0', "row", "4 cells", id="a quote that is never closed"),
    ],
)
def test_a_bad_row_is_reported_and_left_out(cells, field, value):
    trace = parse(TIRESIAS + "0,1,0,9,m,60,0\n" + cells)
    assert [good.id for good in trace.rows] == ["job-000000"]
    (problem,) = trace.problems
    assert (problem.line, problem.field, problem.value) == (3, field, value)
    assert problem.sentence.startswith(f"line 3: {field}:")


def test_a_cell_beyond_all_measure_spoils_only_its_row():
    trace = parse(TIRESIAS + "0,1,0,9,m,60,0\n1," + "x" * 200_000 + "\n2,1,0,9,m,60,0\n")
    assert [good.id for good in trace.rows] == ["job-000000", "job-000002"]
    assert [(problem.line, problem.field) for problem in trace.problems] == [(3, "row")]


def test_reading_goes_on_after_bad_rows_and_ids_keep_the_number_of_the_row():
    trace = parse(TIRESIAS + "0,1,0,9,m,60,0\nx\n\n2,1,0,9,m,60,0\n\0,?\n4,1,0,9,m,60,0\n")
    assert [(good.id, good.line) for good in trace.rows] == [("job-000000", 2), ("job-000002", 5), ("job-000004", 7)]
    assert [problem.line for problem in trace.problems] == [3, 6]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        pytest.param(
            "job_id,model,submit_time,num_proc,min_proc,max_proc,epochs\n0,m,0,5,1,4,9\n", "num_proc", id="voda"
        ),
        pytest.param("submitted_s,workers,duration_s,workers_min\n0,1,9,2\n", "workers_min", id="min above request"),
        pytest.param("submitted_s,workers,duration_s,workers_max\n0,3,9,2\n", "workers_max", id="max below request"),
        pytest.param("submitted_s,workers,duration_s,serial_fraction\n0,3,9,1.2\n", "serial_fraction", id="over one"),
        pytest.param(
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,2,300\n", "gpu_milli", id="shares of two cards"
        ),
        pytest.param(
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,scheduled_time,deletion_time\np,1,1,1,300,9,8\n",
            "deletion_time",
            id="gone before it came",
        ),
        pytest.param("timestamp,duration,num_gpus\nyesterday,1,1\n", "timestamp", id="no date"),
    ],
)
def test_rows_that_contradict_themselves_are_refused(text, field):
    with pytest.raises(InvalidRequest, match=field):
        parse(text)


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        pytest.param("when,what\n1,2\n", None, ["when, what", "tiresias", "alibaba-gpu-2023"], id="unknown columns"),
        pytest.param("when,what\n1,2\n", "excel", ["excel", "tiresias"], id="unknown format"),
        pytest.param("job_id,num_gpu\n1,2\n", "tiresias", ["submit_time, duration, model_name"], id="missing columns"),
        pytest.param("", None, ["first line"], id="an empty file"),
        pytest.param(TIRESIAS, None, ["at least one usable row"], id="a header and nothing else"),
        pytest.param(TIRESIAS + "x,x,x,x,x,x,x\n", None, ["usable row", "line 2", "submit_time"], id="only bad rows"),
        pytest.param("workers,workers\n1,1\n", None, ["each column once"], id="a column that is there twice"),
    ],
)
def test_a_file_that_is_no_trace_says_what_would_do(text, kind, words):
    with pytest.raises(InvalidRequest) as refused:
        parse(text, kind)
    assert all(word in str(refused.value) for word in words)


def test_a_missing_file_and_a_directory_are_named(tmp_path):
    for path in (tmp_path / "absent.csv", tmp_path):
        with pytest.raises(InvalidRequest, match=path.name):
            read_trace(path)


def test_bytes_that_are_no_text_spoil_only_their_row(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_bytes(b"\xef\xbb\xbf" + TIRESIAS.encode() + b"0,1,0,9,m,60,0\n1,\xff\xfe,0,9,m,60,0\n")
    trace = read_trace(path)
    assert (trace.name, len(trace.rows), trace.problems[0].field) == ("odd", 1, "num_gpu")


seconds = st.floats(0, 1e9, allow_nan=False).map(lambda value: round(value, 6) + 0.0)
words = st.text("abcXYZ ,\"'-", max_size=8).map(str.strip)
own_rows = st.builds(
    lambda workers, least, more, **rest: TraceRow(
        id=JobId("job-000000"), line=2, workers=workers, workers_min=least and min(least, workers),
        workers_max=None if more is None else workers + more, **rest,
    ),
    workers=st.integers(1, 64), least=st.none() | st.integers(1, 64), more=st.none() | st.integers(0, 64),
    submitted_s=seconds, duration_s=seconds, gpu_milli=st.sampled_from([1000, 0, 250, 4000]),
    cpu_milli=st.integers(0, 10**6), memory_bytes=st.integers(0, 2**50), units=st.none() | seconds,
    serial_fraction=st.none() | st.floats(0, 1), category=words, batch_size=st.none() | st.integers(1, 10**6),
    accelerator=words.map(lambda word: word or None), deadline_s=st.none() | seconds,
    priority=st.integers(-5, 5), name=words,
)  # fmt: skip


@given(rows=st.lists(own_rows, min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_what_is_written_in_our_own_format_reads_back_the_same(rows):
    rows = [made._replace(id=JobId(f"job-{n:06}"), line=0) for n, made in enumerate(rows)]
    trace = parse(dump_rows(rows))
    assert [read._replace(line=0) for read in trace.rows] == rows
    assert trace.format == "sterna"


@given(text=st.text(st.characters(codec="utf-8"), max_size=60))
@settings(max_examples=100, deadline=None)
def test_no_text_at_all_spoils_the_rows_before_it(text):
    trace = parse(f"{TIRESIAS}0,1,0,9,m,60,0\n{text}\n{text},{text}")
    assert trace.rows[0] == row(submitted_s=0, workers=1, duration_s=60, units=9, category="m", name="0")
    assert all(math.isfinite(other.submitted_s) and other.workers >= 1 for other in trace.rows)
