"""Wrong input of every kind: one clear answer that names field, value and what would do, code 2, never a traceback."""

import json
import sys
from itertools import pairwise
from typing import Any

import pytest
from typer.testing import CliRunner

from sterna.interfaces.cli.main import cli

NODE: dict[str, Any] = {"id": "n1", "accelerator": "a100", "allocatable": {"cpu": 64, "memory": "512Gi", "gpu": 4}}
NO_GPUS = {**NODE, "accelerator": "", "allocatable": {"cpu": 64, "memory": "64Gi"}}
TRACE = "submitted_s,workers,duration_s\n"
RUN = ["simulate", "-t", "poisson-120", "-p", "fifo", "--nodes", "4"]


def job(name: str = "a", *, state: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, **workers: Any):
    sizes = {"min": 1, "max": 4, "request": {"cpu": 1, "gpu": 1}, **workers}
    return {"id": name, "spec": {"workers": sizes, **(spec or {})}, "state": state or {}}


def snapshot(**changes: Any) -> bytes:
    base = {
        "apiVersion": "sterna.dev/v1alpha1",
        "kind": "Snapshot",
        "nowSeconds": 100,
        "nodes": [NODE],
        "jobs": [job()],
    }
    return json.dumps(base | changes).encode()


def worker(ordinal: int = 0, node: str = "n1", **more: Any) -> dict[str, Any]:
    return {"ordinal": ordinal, "node": node, **more}


def run(*arguments: str):
    return CliRunner().invoke(cli, list(arguments), catch_exceptions=False)


def refused(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 2, (result.exit_code, result.stdout, result.stderr)
    assert "Traceback" not in result.stderr
    assert len(result.stderr) < 2000  # a hostile value must not flood a terminal
    return str(result.stderr)


def laughs() -> bytes:
    lines = ["a: &a [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"{after}: &{after} [{','.join([f'*{before}'] * 10)}]" for before, after in pairwise("abcdefghi")]
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(b"", "document: None", id="an empty file"),
        pytest.param(b"{hello", "line 1, column 2", id="not JSON"),
        pytest.param(b"a: [1\nb: 2", "line 2", id="not YAML"),
        pytest.param(bytes(range(256)), "UTF-8", id="bytes that are no text"),
        pytest.param("{}".encode("utf-16"), "UTF-8", id="another encoding"),
        pytest.param(b"\0\0\0", "control characters", id="zeros"),
        pytest.param(b"[]", "keys with values", id="a list"),
        pytest.param(b"submitted_s,workers", "keys with values", id="a trace instead of a snapshot"),
        pytest.param(b'{"a":"' + b"x" * (17 << 20) + b'"}', "at most 16777216 bytes", id="a file that is too long"),
        pytest.param(b"[" * 100_000, "64 levels", id="JSON that is too deep"),
        pytest.param(b"- " * 3000, "64 levels", id="YAML that is too deep"),
        pytest.param(laughs(), "values", id="YAML that is a bomb"),
        pytest.param(b"!!python/object/apply:os.system [ls]", "no tags", id="YAML that wants to run something"),
        pytest.param(b'{"a":1,"a":2}', "each key once", id="a key twice"),
        pytest.param(b"a: 1\n---\na: 2", "one document", id="two documents"),
        pytest.param(snapshot(nowSeconds=float("nan")), "nowSeconds: nan", id="NaN"),
        pytest.param(snapshot().replace(b"100", b"1e999"), "nowSeconds: inf", id="a number beyond all"),
        pytest.param(snapshot().replace(b"100", b"1" + b"0" * 5000), "reasonable size", id="thousands of digits"),
        pytest.param(snapshot(nowSeconds="noon"), "nowSeconds: 'noon'", id="text for a number"),
        pytest.param(snapshot(nowSeconds=True), "a number", id="a truth value for a number"),
        pytest.param(snapshot(nodez=[]), "apiVersion, jobs, kind", id="an unknown key lists those there are"),
        pytest.param(snapshot(apiVersion="v2"), "sterna.dev/v1alpha1", id="another version"),
        pytest.param(snapshot(nodes=None), "nodes: None is not valid; expected a list", id="nodes that are no list"),
        pytest.param(snapshot(jobs=[job(min=5, max=2)]), "workers.max: 2", id="min above max"),
        pytest.param(snapshot(jobs=[job(min=0)]), "1 or more", id="min of nothing"),
        pytest.param(snapshot(jobs=[job(min=-1)]), "workers.min: -1", id="a negative min"),
        pytest.param(snapshot(jobs=[job(min=1.5)]), "a whole number", id="half a worker"),
        pytest.param(snapshot(jobs=[job(max=10**9)]), "at most 100000", id="a billion workers"),
        pytest.param(snapshot(jobs=[job(initial=9)]), "workers.initial: 9", id="initial above max"),
        pytest.param(snapshot(jobs=[job(step=0)]), "workers.step: 0", id="steps of nothing"),
        pytest.param(snapshot(jobs=[job(request={"gpu": -1})]), "0 or more", id="a negative quantity"),
        pytest.param(snapshot(jobs=[job(request={"gpu": "lots"})]), "500m", id="a quantity that is none"),
        pytest.param(snapshot(jobs=[job(request={"gpu": "1e30"})]), "at most", id="a quantity beyond all"),
        pytest.param(snapshot(jobs=[job(request={"gpu": 1.5})]), "request.gpu: 1.5", id="one and a half GPUs"),
        pytest.param(snapshot(jobs=[job(), job()]), "jobs[1].id: 'a'", id="a job twice"),
        pytest.param(snapshot(nodes=[NODE, NODE]), "nodes[1].id: 'n1'", id="a node twice"),
        pytest.param(
            snapshot(nodes=[{**NODE, "devices": [{"id": "0"}, {"id": "0"}]}]), "devices[1].id: '0'", id="a card twice"
        ),
        pytest.param(
            snapshot(nodes=[{**NODE, "allocatable": {"gpu": "1G"}}]), "at most 1000000", id="a billion GPUs on a node"
        ),
        pytest.param(
            snapshot(jobs=[job(state={"workers": [worker(), worker()]})]), "workers[1].ordinal: 0", id="a worker twice"
        ),
        pytest.param(
            snapshot(jobs=[job(spec={"fixed": [{"role": "ps"}, {"role": "ps"}]})]),
            "fixed[1].role: 'ps'",
            id="a role twice",
        ),
        pytest.param(snapshot(jobs=[job(state={"phase": "Dancing"})]), "'Waiting', 'Running'", id="an unknown phase"),
        pytest.param(snapshot(jobs=[job(state={"curve": {"speedups": []}})]), "at least 1", id="a curve of nothing"),
        pytest.param(snapshot(jobs=[job(state={"curve": {"speedups": [-1]}})]), "above 0", id="a negative speed"),
        pytest.param(snapshot(jobs=[job("")]), "jobs[0].id: ''", id="a job without a name"),
        pytest.param(snapshot(jobs=[job("x" * 999)]), "at most 512", id="a name without an end"),
        pytest.param(snapshot(jobs=[job("a\x1b[2Jb")]), "control characters", id="a name that paints the terminal"),
        pytest.param(snapshot(revision=-1), "revision: -1", id="a negative revision"),
    ],
)
def test_a_malformed_snapshot_is_refused(content, says, tmp_path):
    path = tmp_path / "snapshot"
    path.write_bytes(content)
    assert says in refused("decide", "-s", str(path), "-p", "fifo")


@pytest.mark.parametrize("policy", ["fifo", "elastic-fifo", "afs-l", "dragon", "tiresias", "ffdl", "optimus"])
@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(snapshot(nodes=[]), "NeverFits", id="no nodes"),
        pytest.param(snapshot(jobs=[]), "Nothing to do", id="no jobs"),
        pytest.param(snapshot(nodes=[], jobs=[]), "Nothing to do", id="nothing at all"),
        pytest.param(snapshot(nodes=[NO_GPUS]), "NeverFits", id="a GPU job where there are no GPUs"),
        pytest.param(
            snapshot(nodes=[NO_GPUS], jobs=[job(request={"gpu": 1})]),
            "NeverFits",
            id="likewise if it asks for nothing else",
        ),
        pytest.param(snapshot(jobs=[job(min=99, max=99)]), "NeverFits", id="a job larger than the cluster"),
        pytest.param(
            snapshot(jobs=[job(spec={"selector": {"zone": "mars"}})]), "NeverFits", id="a selector nobody has"
        ),
        pytest.param(snapshot(jobs=[job(spec={"accelerator": "h200"})]), "NeverFits", id="an accelerator nobody has"),
        pytest.param(snapshot(nodes=[{**NODE, "taints": [{"key": "x"}]}]), "NeverFits", id="a taint nobody tolerates"),
        pytest.param(snapshot(jobs=[job(request={})]), "grow a 0 -> ", id="a job that asks for nothing"),
        pytest.param(
            snapshot(jobs=[job(state={"workers": [worker(0, "gone")]})]), "NodeLost", id="a worker on an unknown node"
        ),
        pytest.param(
            snapshot(jobs=[job(max=8, state={"workers": [worker(n) for n in range(8)]})]),
            "shrink a 8 -> ",
            id="overfull",
        ),
        pytest.param(
            snapshot(jobs=[job(state={"leaving": [worker(n) for n in range(4)]})]),
            "told to go are gone",
            id="only leaving",
        ),
    ],
)
def test_an_odd_but_possible_world_is_answered(content, says, policy, tmp_path):
    path = tmp_path / "snapshot.json"
    path.write_bytes(content)
    result = run("decide", "-s", str(path), "-p", policy)
    assert result.exit_code == 0, result.stderr
    assert says in result.stdout
    assert json.loads(run("decide", "-s", str(path), "-p", policy, "-o", "json").stdout)["kind"] == "Decision"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(["decide", "-s", ".", "-p", "fifo"], "directory", id="a directory as snapshot"),
        pytest.param(["decide", "-s", "EXAMPLE", "-p", ""], "elastic-fifo", id="a policy without a name"),
        pytest.param(
            ["decide", "-s", "EXAMPLE", "-p", "fifo", "--placement", "x"], "packed", id="an unknown placement"
        ),
        pytest.param(["decide", "-s", "EXAMPLE", "-p", "fifo", "--set", "strict"], "key=value", id="no value"),
        pytest.param(["decide", "-s", "EXAMPLE", "-p", "fifo", "--set", "=1"], "key=value", id="no key"),
        pytest.param(
            ["decide", "-s", "EXAMPLE", "-p", "fifo", "--set", "strict=x"], "true or false", id="a wrong value"
        ),
        pytest.param(
            ["decide", "-s", "EXAMPLE", "-p", "tiresias", "--set", "promote-knob=nan"], "NaN", id="NaN as option"
        ),
        pytest.param([*RUN, "--model-set", "x"], "--model-set: 'x'", id="a model's option without a value"),
        pytest.param([*RUN, "--model-set", "serial=-1"], "at least 0", id="a model's option out of range"),
        pytest.param([*RUN, "--model", "afs"], "afs_scaling_curves.json", id="a model without its profiles"),
        pytest.param(
            [*RUN, "--model", "pollux", "--profiles", "nope"], "profiles: 'nope'", id="profiles that are missing"
        ),
        pytest.param([*RUN, "--sizing", "x"], "request, model", id="an unknown sizing"),
        pytest.param([*RUN, "--nodes", "100001"], "from 1 to 100000", id="more nodes than anybody has"),
        pytest.param([*RUN, "--gpus-per-node", "0"], "--gpus-per-node", id="nodes without GPUs"),
        pytest.param([*RUN, "--interval", "0"], "0.1 seconds or more", id="rounds of no length"),
        pytest.param([*RUN, "--interval", "1e-9"], "0.1 seconds or more", id="rounds that would never end"),
        pytest.param([*RUN, "--start-cost", "inf"], "length of time", id="a pause without end"),
        pytest.param([*RUN, "--migrate-cost", "5parsecs"], "length of time", id="an unknown unit"),
        pytest.param([*RUN, "--generate", "bursty"], "where a trace is given", id="a trace and a made-up one"),
        pytest.param([*RUN, "--node-events", "nope.csv"], "nope.csv", id="node events that are missing"),
        pytest.param([*RUN, "--cluster", "."], "directory", id="a directory as cluster"),
        pytest.param([*RUN, "--journal", "no/such/place"], "no/such/place", id="a journal that cannot be written"),
        pytest.param(
            ["simulate", "--generate", "poisson", "--jobs", "1000001", "-p", "fifo"], "1000000", id="no end of jobs"
        ),
        pytest.param(["generate", "--jobs", "99999999999"], "from 1 to 1000000", id="no end of rows"),
        pytest.param(["compare", "-t", "", "-p", "fifo"], "at least one trace", id="no traces to compare"),
        pytest.param(["compare", "-t", "poisson-120", "-p", ""], "--policies", id="no policies to compare"),
        pytest.param(["compare", "-t", "poisson-120", "-p", "fifo:size"], "key=value", id="an option without a value"),
        pytest.param(
            ["compare", "-t", "poisson-120", "-p", "fifo", "--set", "x=1"], "at least one", id="nobody's option"
        ),
        pytest.param(
            ["traces", "poisson-120", "--format", "tiresias"], "missing: job_id", id="another format's columns"
        ),
    ],
)
def test_wrong_options_are_refused(arguments, says, tmp_path):
    example = tmp_path / "snapshot.json"
    example.write_bytes(snapshot())
    assert says in refused(*(str(example) if word == "EXAMPLE" else word for word in arguments))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(b"", "first line names its columns", id="an empty file"),
        pytest.param(b"foo,bar\n1,2\n", "tiresias", id="columns of no format list the formats"),
        pytest.param(b"submitted_s,submitted_s\n", "each column once", id="a column twice"),
        pytest.param(b"\xff\xfe\x00\x01\n", "columns", id="bytes that are no text"),
        pytest.param(b"x" * 2_000_000, "first line names its columns", id="a line without an end"),
        pytest.param(TRACE.encode(), "at least one usable row", id="no rows"),
        pytest.param(f"{TRACE}0,99999999999999999999,5\n".encode(), "1 to 65536", id="only a row that is out of range"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(content, says, tmp_path):
    path = tmp_path / "trace.csv"
    path.write_bytes(content)
    assert says in refused("simulate", "-t", str(path), "-p", "fifo")
    assert says in refused("traces", str(path))


def test_every_hole_of_a_trace_is_told_and_the_rest_is_simulated(tmp_path):
    holes = ["nan,1,5", "-1,1,5", "0,1.5,5", "0,,5", "0,0,5", "0,1,inf", "0,1,-3", "x,y,z", "0,1", "1e308,1,5"]
    path = tmp_path / "holes.csv"
    path.write_text(TRACE + "0,2,60\n" + "\n".join(holes) + "\n")
    result = run("simulate", "-t", str(path), "-p", "fifo", "-o", "json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert (len(found["problems"]), found["summary"]["finished"]) == (len(holes), 1)
    assert "left out: line 3: submitted_s: 'nan'" in result.stderr


def test_a_job_that_can_never_fit_is_told_beside_the_numbers(tmp_path):
    path = tmp_path / "never.csv"
    path.write_text(TRACE + "0,1000,60\n0,2,60\n")
    result = run("simulate", "-t", str(path), "-p", "fifo", "--nodes", "2", "-o", "csv")
    assert result.exit_code == 0
    assert "fifo: job-000000 never started: no nodes that admit it could hold its minimum" in result.stderr
    assert run("compare", "-t", str(path), "-p", "fifo", "-j", "1").stderr.startswith("fifo on never: job-000000")


@pytest.mark.parametrize(
    ("option", "content", "says"),
    [
        pytest.param("--node-events", "at_s,change,node\n5,lost,nope\n", "a node that is there", id="an unknown node"),
        pytest.param(
            "--node-events", "at_s,change,node\n5,added,node-000\n", "no node has", id="a node there already is"
        ),
        pytest.param("--node-events", "at_s,change,node\n5,eaten,node-000\n", "drained", id="an unknown change"),
        pytest.param("--node-events", "at_s,change,node\n-5,lost,node-000\n", "0 or more", id="a negative moment"),
        pytest.param("--node-events", "when,what\n", "at_s, change, node", id="other columns"),
        pytest.param(
            "--serving", "id,at_s,lasts_s,gpus,cpus,memory\ns,0,nan,1,,\n", "lasts_s: 'nan'", id="lasting NaN"
        ),
        pytest.param("--serving", "id,at_s,lasts_s,gpus,cpus,memory\ns,0,9,-1,,\n", "0 or more", id="negative GPUs"),
        pytest.param(
            "--serving", "id,at_s,lasts_s,gpus,cpus,memory\ns,0,9,1,,\ns,0,9,1,,\n", "each id once", id="a pod twice"
        ),
        pytest.param("--cluster", "a,b\n1,2\n", "num_switch", id="a cluster of unknown columns"),
        pytest.param("--cluster", "sn,cpu_milli,memory_mib,gpu,model\nn,1,1,nan,x\n", "gpu: 'nan'", id="NaN GPUs"),
    ],
)
def test_a_wrong_scenario_is_refused_before_anything_runs(option, content, says, tmp_path):
    path = tmp_path / "scenario.csv"
    path.write_text(content)
    assert says in refused(*RUN, option, str(path))


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/zero is not everywhere")
@pytest.mark.parametrize("command", [["decide", "-p", "fifo", "-s"], ["traces"]], ids=lambda words: words[0])
def test_a_file_without_an_end_is_not_read_to_its_end(command):
    assert refused(*command, "/dev/zero")
