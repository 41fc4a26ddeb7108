"""The commands that ask an engine: what they print, in every form, and with which exit code they end."""

import json
import os
import re
import subprocess
import sys
import threading
from functools import partial

import pytest
import yaml
from typer.testing import CliRunner

from sterna import __version__
from sterna.interfaces.cli import asking
from sterna.interfaces.cli.main import cli
from tests.interfaces.service.serving import COMMAND, SOON_S, eventually, manifest, service, sterna

COMMANDS = (
    *("up", "down", "submit", "create", "get", "describe", "logs", "events", "explain", "top", "wait"),
    *("scale", "migrate", "drain", "uncordon", "suspend", "resume", "delete", "policy"),
)


@pytest.fixture
def api(tmp_path, monkeypatch):
    monkeypatch.setenv("STERNA_HOME", str(tmp_path / "home"))
    with service(tmp_path / "home") as running:
        yield running


@pytest.fixture
def job_a(api):
    api.client.submit(manifest("a", least=1, most=2))
    return "default/a"


def run(*arguments: str, stdin: str | None = None):
    return CliRunner().invoke(cli, list(arguments), input=stdin, catch_exceptions=False)


def answer(*arguments: str, stdin: str | None = None) -> str:
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return str(result.stdout)


def refused(code: int, *arguments: str, stdin: str | None = None) -> str:
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == code, (result.exit_code, result.output)
    assert "Traceback" not in result.output
    return str(result.stderr)


def written(tmp_path, text: str, name: str = "job.yaml") -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def test_the_version_is_an_option_and_a_command():
    assert answer("--version") == answer("version") == f"{__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_examples(command):
    text = answer(command, "--help")
    assert "Usage:" in text
    assert re.search(rf"Examples?:\n +sterna {command}", text)


@pytest.mark.parametrize(
    "command",
    ["get jobs", "describe a", "logs a", "events", "explain a", "top", "wait a", "scale a --max 2", "delete a",
     "migrate a --to n", "drain n", "uncordon n", "suspend a", "resume a", "policy get"],
)  # fmt: skip
def test_without_an_engine_every_command_says_how_to_start_one(command, tmp_path, monkeypatch):
    monkeypatch.setenv("STERNA_HOME", str(tmp_path))
    assert "no engine is running" in refused(1, *command.split())
    assert "sterna up" in refused(1, *command.split(), "--home", str(tmp_path / "other"))


def test_down_without_an_engine_has_nothing_to_do(tmp_path):
    assert "no engine is running" in answer("down", "--home", str(tmp_path))


def test_voda_5_create_prints_name_and_how_to_follow_it(api, tmp_path):
    text = answer("create", "-f", written(tmp_path, manifest("mnist")))
    assert text == "job default/mnist created\nfollow it with: sterna logs -f mnist\n"


def test_voda_5_get_jobs_has_the_seven_columns_sorted(api):
    for name in ("zebra", "ant"):
        api.client.submit(manifest(name))
    api.run(api.scheduler.finish("default/zebra"))
    assert answer("get", "jobs").splitlines() == [
        "NAME   STATUS     WORKERS  SCHEDULER     WAITING  RUNNING  TOTAL",
        "ant    Running    1        elastic-fifo  3s       1h2m3s   1h2m6s",
        "zebra  Succeeded  0        elastic-fifo  3s       1h2m3s   1h2m6s",
    ]


def test_voda_5_delete_confirms_each_and_deletes_each_once(api):
    for name in ("a", "b", "c"):
        api.client.submit(manifest(name))
    result = run("delete", "a", "nope", "b", "a")
    assert result.stdout == "job default/a deleted\njob default/b deleted\n"
    assert "no job 'default/nope'" in result.stderr
    assert result.exit_code == 3
    assert [job["name"] for job in api.client.jobs()] == ["c"]


def test_submitting_in_every_form(api, tmp_path):
    file = written(tmp_path, f"{manifest('a')}---\n{manifest('b', namespace='lab')}")
    assert answer("submit", "-f", file, "--dry-run").splitlines() == [
        "job default/a would be created",
        "job lab/b would be created",
    ]
    assert api.client.jobs() == []
    assert "follow it with: sterna logs -f lab/b" in answer("submit", "-f", file)
    assert answer("submit", "-f", "-", "-o", "name", stdin=manifest("c")) == "default/c\n"
    assert json.loads(answer("submit", "-f", "-", "-o", "json", stdin=manifest("d")))[0]["name"] == "d"
    assert yaml.safe_load(answer("submit", "-f", "-", "-o", "yaml", stdin=manifest("e")))[0]["name"] == "e"
    assert answer("submit", "-f", "-", "--quiet", stdin=manifest("f")) == ""


def test_of_several_files_all_are_taken_or_none(api, tmp_path):
    good, bad = written(tmp_path, manifest("a"), "good.yaml"), written(tmp_path, "kind: Pod", "bad.yaml")
    assert f"{bad}: kind: 'Pod'" in refused(2, "submit", "-f", good, "-f", bad)
    assert api.client.jobs() == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(b"kind: Pod", "kind: 'Pod' is not valid; expected one of: ElasticJob", id="another kind"),
        pytest.param(b"\xff\xfe", "text in UTF-8", id="bytes that are no text"),
        pytest.param(b"x" * (2 << 20), "at most 1048576 bytes", id="a file beyond all measure"),
        pytest.param(b"", "at least one job", id="an empty file"),
        pytest.param(manifest("a").replace("min: 1", "min: no").encode(), "spec.workers.min", id="the field is named"),
    ],
)
def test_a_wrong_manifest_is_code_2_and_names_file_and_field(api, tmp_path, content, says):
    path = tmp_path / "job.yaml"
    path.write_bytes(content)
    told = refused(2, "submit", "-f", str(path))
    assert says in told
    assert str(path) in told


def test_a_file_that_is_not_there_is_named(api):
    assert "missing.yaml: no such file" in refused(2, "submit", "-f", "missing.yaml")


@pytest.mark.parametrize(("phase", "code"), [("Succeeded", 0), ("Failed", 1)])
def test_submit_can_wait_for_the_end(api, tmp_path, phase, code):
    def finish() -> None:
        assert eventually(lambda: api.client.jobs())
        api.run(api.scheduler.finish("default/a", phase, "out of memory"))

    threading.Thread(target=finish, daemon=True).start()
    result = run("submit", "-f", written(tmp_path, manifest("a")), "--wait", "--timeout", "20s")
    assert result.exit_code == code
    assert ("out of memory" in result.stderr) is bool(code)


def test_lists_in_every_form(api, job_a):
    assert answer("get", "jobs", "-o", "name") == "default/a\n"
    assert [job["id"] for job in json.loads(answer("get", "jobs", "-o", "json"))] == ["default/a"]
    assert json.loads(answer("get", "job", "a", "-o", "json"))["workerDetails"]
    assert yaml.safe_load(answer("get", "job", "default/a", "-o", "yaml"))["id"] == "default/a"
    head, row = answer("get", "jobs", "-o", "wide").splitlines()
    assert head.split()[7:] == [
        *("SIZE", "GPUS", "PROGRESS", "GROWTH", "REASON", "NODES", "PRIORITY", "RESTARTS", "MIGRATIONS", "CHECKPOINT"),
        "AGE",
    ]
    assert row.split()[7:13] == ["2/1-2", "2", "42%", "-", "NextInOrder", "node-1"]
    assert answer("get", "nodes", "-o", "name") == "node-1\nnode-2\n"
    assert answer("get", "nodes").splitlines()[1].split() == ["node-1", "Ready", "2/2", "0/2", "0", "B/1", "GiB", "2"]
    assert json.loads(answer("get", "node", "node-2", "-o", "json"))["name"] == "node-2"
    assert answer("get", "migrations").split() == [
        *("ID", "JOB", "FROM", "TO", "PHASE", "REASON", "DOWNTIME", "BENEFIT", "AGE")
    ]


def test_jobs_are_chosen_by_label_sorted_by_column_or_path_and_printed_by_template(api):
    api.client.submit(manifest("a", most=2, labels={"team": "vision"}))
    api.client.submit(manifest("b", labels={"team": "speech"}))
    api.client.submit(manifest("c", labels={"team": "vision"}))
    assert answer("get", "jobs", "-l", "team=vision", "-o", "name") == "default/a\ndefault/c\n"
    assert "no jobs in namespace" not in run("get", "jobs", "-l", "team=none").stderr
    for by in ("workers", ".workers.current", "{.workers.current}"):
        sizes = answer("get", "jobs", "--sort-by", by, "-o", "jsonpath={.items[*].workers.current}").split()
        assert sizes == sorted(sizes), by
        assert len(sizes) == 3
    template = '{range .items[?(@.labels.team=="vision")]}{.name}={.phase}{"\\n"}{end}'
    assert answer("get", "jobs", "-o", f"jsonpath={template}").split() == ["a=Running", "c=Running"]
    assert answer("get", "job", "a", "-o", "jsonpath={.workers.max}") == "2\n"
    assert "age" in refused(2, "get", "jobs", "--sort-by", "colour")
    assert "'{.a'" in refused(2, "get", "jobs", "-o", "jsonpath={.a")
    assert "migrations have no labels" in refused(2, "get", "migrations", "-l", "a=b")


def test_wide_tables_are_not_cut(api, monkeypatch):
    limits = "GPUs are names only; " * 20
    nodes = [f"a-node-with-a-long-name-{number}" for number in range(12)]
    monkeypatch.setenv("COLUMNS", "40")
    api.client.submit(manifest("a"))
    monkeypatch.setattr(type(api.client), "nodes", lambda self: [{"name": "n", "limits": limits}])
    jobs = [{"id": "default/a", "namespace": "default", "name": "a", "nodes": nodes}]
    monkeypatch.setattr(type(api.client), "jobs", lambda self, **_: jobs)
    assert limits.strip() in answer("get", "nodes", "-o", "wide")
    assert ",".join(nodes) in answer("get", "jobs", "-o", "wide")


def test_namespaces_are_kept_apart_and_shown_together(api):
    api.client.submit(manifest("a", namespace="lab"))
    result = run("get", "jobs")
    assert "no jobs in namespace default; 1 in others, see -A" in result.stderr
    assert answer("get", "jobs", "-A").splitlines()[1].split()[:2] == ["lab", "a"]
    assert answer("get", "jobs", "-n", "lab", "-o", "name") == answer("get", "job", "lab/a", "-o", "name") == "lab/a\n"
    assert "lab" in answer("describe", "lab/a", "-n", "elsewhere")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        pytest.param("get job nope", "there is no job 'default/nope'", id="a job"),
        pytest.param("get node nope", "there is no node 'nope'", id="a node"),
        pytest.param("get migration 7", "there is no migration '7'", id="a migration"),
        pytest.param("describe nope", "default/nope", id="to be described"),
        pytest.param("describe node nope", "there is no node 'nope'", id="a node to be described"),
        pytest.param("logs nope", "default/nope", id="to be heard"),
        pytest.param("logs nope -f --worker 0", "default/nope", id="to be followed"),
        pytest.param("explain nope", "default/nope", id="to be explained"),
        pytest.param("events nope", "default/nope", id="to be told of"),
        pytest.param("scale nope --max 2", "default/nope", id="to be scaled"),
        pytest.param("migrate nope --to node-1", "default/nope", id="to be moved"),
        pytest.param("suspend nope", "default/nope", id="to be suspended"),
        pytest.param("resume nope -n lab", "lab/nope", id="to be resumed"),
        pytest.param("wait nope", "default/nope", id="to be waited for"),
        pytest.param("delete nope", "default/nope", id="to be deleted"),
        pytest.param("drain nope", "there is no node 'nope'", id="a node to be drained"),
    ],
)
def test_what_is_not_there_is_code_3(api, command, says):
    assert says in refused(3, *command.split())


@pytest.mark.parametrize(
    ("command", "says"),
    [
        pytest.param("get pods", "jobs, nodes, migrations", id="an unknown kind lists those known"),
        pytest.param("get jobs -o xml", "yaml", id="an unknown form, too"),
        pytest.param("scale a", "--min or --max", id="no size"),
        pytest.param("scale a --workers 2 --max 3", "beside --min and --max", id="two sizes"),
        pytest.param("scale a --min 5", "at least 5", id="bounds that cross"),
        pytest.param("scale a --workers 0", "--workers", id="no workers"),
        pytest.param("wait a --for happy", "condition=NAME", id="an unknown state"),
        pytest.param("wait a --timeout soon", "length of time", id="a time that is none"),
        pytest.param("delete", "or --all", id="nothing to delete"),
        pytest.param("delete a --all", "or --all", id="one and all"),
        pytest.param("policy set", "the policy to set", id="no policy"),
        pytest.param("policy set nope", "fifo", id="an unknown policy"),
        pytest.param("policy set fifo --set strict", "key=value", id="half a setting"),
        pytest.param("policy get fifo", "nothing after get", id="too much said"),
        pytest.param("logs a --previous -f", "neither follow nor every", id="the past cannot be followed"),
        pytest.param("describe /", "NAMESPACE/NAME", id="a name that is none"),
        pytest.param("up --nodes 0", "--nodes", id="no nodes"),
        pytest.param("up --port 70000", "--port", id="a port that is none"),
        pytest.param("up --policy nope", "elastic-fifo", id="starting with an unknown policy"),
        pytest.param("up --set strict=true", "--policy beside it", id="a setting of nobody"),
        pytest.param("up --rebalance spekon", "did you mean specon", id="starting with an unknown rebalancer"),
        pytest.param("up --rebalance-set round-s=5", "--rebalance beside it", id="an option of no rebalancer"),
        pytest.param("up --rebalance specon --rebalance-set rounds", "key=value", id="half an option of a rebalancer"),
        pytest.param(
            "up --rebalance none --rebalance-set judge.mode=raw --rebalance-set a=b", "a", id="nobody's option"
        ),
        pytest.param("up --rebalance specon --rebalance-set judge.mode=rough", "normalised", id="a judge that is none"),
        pytest.param("up --door-port 70000", "--door-port", id="a door that is none"),
        pytest.param("policy get --rebalance specon", "nothing after get", id="asking and setting a rebalancer"),
        pytest.param("policy set --rebalance-set rounds", "key=value", id="half an option while it runs"),
        pytest.param("up --memory-per-node lots", "--memory-per-node", id="memory that is no size"),
    ],
)
def test_wrong_input_is_code_2_and_says_what_would_do(api, job_a, command, says):
    assert says in refused(2, *command.split())


def test_a_second_engine_in_the_same_home_is_refused(api):
    assert "an engine already runs in" in refused(1, "up")


def test_describe_says_everything(api, job_a):
    text = answer("describe", "a")
    for words in ("Name:", "default", "2 now, from 1 to 2", "loss 0.25", "42%", "a-worker-1-abcde", "Submitted"):
        assert words in text
    assert "0 of 2 in use" in answer("describe", "node", "node-2")
    api.client.migrate("a", to="node-2")
    assert "Downtime:" in answer("describe", "migration", "1")


def test_a_message_cannot_steer_the_terminal(api, job_a):
    api.scheduler.change(job_a, message="\x1b]0;owned\x07\x1b[2J boo", reason="\x1b[31mRed")
    for command in ("get jobs -o wide", "describe a", "explain a", "top --once"):
        assert "\x1b" not in answer(*command.split())


def test_events_of_one_and_of_all(api, job_a):
    api.client.drain("node-2")
    assert answer("events", "a").splitlines()[1].split()[1:4] == ["Normal", "a", "Submitted"]
    assert "NodeDrained" in answer("events")
    assert [event["reason"] for event in json.loads(answer("events", "-o", "json"))] == ["Submitted", "NodeDrained"]


def test_explain_for_people_and_programs(api):
    api.client.submit(manifest("big", least=64, most=64))
    text = answer("explain", "big")
    assert "jobs ahead take the room" in text
    assert "gpus free: 4" in text
    assert "- more GPUs" in text
    assert json.loads(answer("explain", "big", "-o", "json"))["because"]["why"] == "NoRoom"


def test_sizes_moves_and_nodes_change(api, job_a):
    assert answer("scale", "a", "--min", "1", "--max", "3") == "job default/a may have 1 to 3 workers\n"
    assert answer("migrate", "a", "--to", "node-2", "--wait").splitlines()[-1] == (
        "migration 1 succeeded: node-1 to node-2, paused 0.31s"
    )
    assert "cannot move" in refused(1, "migrate", "a", "--to", "node-2")
    assert answer("drain", "node-1", "--wait") == "node node-1 is being emptied\nnode node-1 is empty\n"
    assert answer("uncordon", "node-1") == "node node-1 takes work again\n"
    assert answer("suspend", "a", "-q") == ""
    assert answer("wait", "a", "--for", "suspended", "--timeout", "5s") == "job default/a is Suspended\n"
    assert answer("resume", "a") == "job default/a resumed\n"


def test_waiting_in_vain_is_code_4(api, job_a):
    assert "is not succeeded after 0.2 s; it is Running" in refused(
        4, "wait", "a", "--for", "succeeded", "--timeout", "0.2s"
    )


def test_waiting_for_what_failed_is_code_1(api, job_a):
    api.run(api.scheduler.finish(job_a, "Failed", "out of memory"))
    assert "out of memory" in refused(1, "wait", "a", "--for", "succeeded", "--timeout", "20s")
    assert answer("wait", "a") == "job default/a is Failed\n"


def test_a_node_that_does_not_get_empty_is_code_4(api, job_a):
    api.client.drain("node-2")
    api.scheduler._mark = lambda node, takes_work: api.scheduler.policy()  # says yes, and does nothing
    assert "still has 2 workers" in refused(4, "drain", "node-1", "--wait", "--timeout", "0.1s")


def test_all_jobs_of_a_namespace_can_be_deleted(api):
    for name in ("a", "b"):
        api.client.submit(manifest(name, namespace="lab"))
    api.client.submit(manifest("c"))
    assert answer("delete", "--all", "-n", "lab").splitlines() == ["job lab/a deleted", "job lab/b deleted"]
    assert answer("delete", "--all", "-n", "lab") == "no jobs in namespace lab\n"
    assert [job["id"] for job in api.client.jobs()] == ["default/c"]


def test_the_policy_is_shown_and_set(api):
    assert "elastic-fifo" in answer("policy", "get")
    assert "strict=true" in answer("policy", "set", "fifo", "--set", "strict=true")
    assert json.loads(answer("policy", "get", "-o", "json"))["settings"] == {"strict": "true"}
    assert "7 s between decisions" in answer("policy", "set", "fifo", "--rate-limit", "7s")


def test_logs_carry_names_where_workers_mix(api, job_a, tmp_path):
    for number in range(2):
        (tmp_path / str(number)).write_bytes(b"step 1\nstep 2\n")
        api.scheduler.wrote(job_a, f"a-worker-{number}-abcde", tmp_path / str(number))
    assert answer("logs", "a").splitlines()[0] == "[a-worker-0-abcde] step 1"
    assert answer("logs", "a", "--worker", "1", "--tail", "1") == "step 2\n"
    assert answer("logs", "a", "--no-prefix", "--tail", "1") == "step 2\nstep 2\n"


def test_watching_prints_what_changes_until_interrupted(api, job_a):
    command = [*COMMAND, "get", "jobs", "-w"]
    watcher = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert watcher.stdout is not None
        assert watcher.stdout.readline().startswith("NAME")
        assert watcher.stdout.readline().split()[:2] == ["a", "Running"]
        api.client.suspend("a")
        assert watcher.stdout.readline().split()[:2] == ["a", "Suspended"]
        watcher.send_signal(2)
        assert watcher.wait(SOON_S) == 0
        assert watcher.stderr is not None
        assert watcher.stderr.read() == ""
    finally:
        watcher.kill()
        watcher.wait()


def test_following_events_tells_them_as_they_happen(api, job_a):
    command = [*COMMAND, "events", "-f", "-o", "name"]
    follower = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert follower.stdout is not None
        assert follower.stdout.readline() == "1\n"
        api.client.suspend("a")
        assert follower.stdout.readline() == "2\n"
    finally:
        follower.kill()
        follower.wait()


def test_down_stops_the_engine_and_says_so_only_when_it_is_gone(api):
    assert "has not ended after 0.2 s" in refused(4, "down", "--leave-jobs", "--timeout", "0.2s")
    assert api.stops == [True]


def test_on_a_terminal_deleting_asks_first(api, job_a):
    script = f"import pty, sys; sys.exit(pty.spawn({[*COMMAND, 'delete', 'a']!r}) >> 8)"
    outcome = subprocess.run(
        [sys.executable, "-c", script], input="n\n", capture_output=True, text=True, timeout=SOON_S
    )
    assert "Delete default/a with all checkpoints? [y/N]" in outcome.stdout
    assert outcome.returncode == 1
    assert [job["id"] for job in api.client.jobs()] == [job_a]
    assert answer("delete", "a", "--yes") == "job default/a deleted\n"


class Typed:
    """What a shell's completion has of a command line."""

    def __init__(self, **params: object) -> None:
        self.params = params
        self.meta: dict[str, object] = {}
        self.obj = None

    def find_root(self) -> "Typed":
        return self


def test_names_are_completed(api, job_a):
    api.client.submit(manifest("abc", namespace="lab"))
    assert asking.complete_jobs(Typed(), "") == ["a", "lab/abc"]  # type: ignore[arg-type]
    assert asking.complete_jobs(Typed(namespace="lab"), "a") == ["abc"]  # type: ignore[arg-type]
    assert asking.complete_nodes(Typed(), "node-2") == ["node-2"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param("sterna describe ", ["a"], id="jobs"),
        pytest.param("sterna drain ", ["node-1", "node-2"], id="nodes"),
        pytest.param("sterna get j", ["jobs"], id="kinds"),
        pytest.param("sterna get nodes node-1", ["node-1"], id="names of the kind"),
        pytest.param("sterna wait a --for su", ["succeeded", "suspended"], id="states"),
    ],
)
def test_the_shell_completes_from_the_running_engine(api, job_a, words, expected):
    env = {"_STERNA_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    script = "from sterna.interfaces.cli.main import cli; cli(prog_name='sterna')"
    outcome = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **env}, capture_output=True, text=True, timeout=SOON_S
    )
    assert outcome.stdout.split() == expected
    assert outcome.stderr == ""


def test_completion_is_silent_when_no_engine_runs(tmp_path):
    assert asking.complete_jobs(Typed(home=str(tmp_path)), "") == []  # type: ignore[arg-type]
    assert asking.complete_nodes(Typed(home=str(tmp_path)), "") == []  # type: ignore[arg-type]


def test_asking_loads_nothing_heavy(api, job_a):
    heavy = ("numpy", "scipy", "rich", "yaml", "starlette", "uvicorn")  # typer itself may bring pydantic
    script = (
        "import sys; from sterna.interfaces.cli.main import cli\n"
        "try: cli(['get', 'jobs'], prog_name='sterna')\n"
        f"except SystemExit: print(*(name for name in {heavy} if name in sys.modules))"
    )
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert outcome.stdout.splitlines()[1].split()[0] == "a"
    assert outcome.stdout.splitlines()[2:] == [""]


def test_a_stream_that_cannot_show_a_sign_is_no_error(api, job_a):
    api.scheduler.change(job_a, message="naïve ☃")
    outcome = sterna(api.home, "describe", "a")
    assert "naïve" in outcome.stdout
    env = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    command = [*COMMAND, "describe", "a"]
    plain = subprocess.run(command, env=env, capture_output=True, encoding="latin-1", timeout=SOON_S, check=False)
    assert (plain.returncode, plain.stderr) == (0, "")
    assert "naïve \\u2603" in plain.stdout


def test_on_a_terminal_top_is_redrawn_until_interrupted(api, job_a):
    """In a terminal of its own, which is what it draws for."""
    script = f"import pty, sys; sys.exit(pty.spawn({[*COMMAND, 'top', '--interval', '0.2s']!r}) >> 8)"
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "30"}
    env.pop("NO_COLOR", None)
    watcher = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    )
    assert watcher.stdin is not None
    assert watcher.stdout is not None
    screen: list[str] = []
    letters = iter(partial(watcher.stdout.read, 1), "")
    reader = threading.Thread(target=lambda: screen.extend(letters), daemon=True)
    reader.start()
    try:
        assert eventually(lambda: "Running" in "".join(screen))
        api.client.suspend("a")
        assert eventually(lambda: "Suspended" in "".join(screen))
        watcher.stdin.write("\x03")
        watcher.stdin.flush()
        assert watcher.wait(SOON_S) == 0
    finally:
        watcher.kill()
        watcher.wait()
        reader.join(SOON_S)
    assert "".join(screen).count("2 nodes") >= 2
    assert "\x1b[" in "".join(screen)


def test_rebalancers_are_set_beside_a_policy_or_alone(api):
    answer("policy", "set", "las", "--set", "demote=jump", "--rebalance", "specon,imbalance")
    text = answer("policy", "set", "--rebalance", "specon", "--rebalance-set", "specon.round-s=5")
    assert "las" in text, "the policy stays"
    assert "demote=jump" in text
    assert "rebalance   specon (specon.round-s=5)" in text
    assert "none: jobs are moved only" in answer("policy", "set", "--rebalance", "none")
    assert json.loads(answer("policy", "get", "-o", "json"))["rebalance"] == []
