"""From the manifest's words to what is executed."""

import tracemalloc

import pytest

from sterna.engines.contracts import launch_of, pod_fields
from sterna.engines.contracts.executed_program import LAUNCH_BYTES_MAX, WORD_BYTES_MAX, expanded
from sterna.model.errors import InvalidRequest
from sterna.model.jobs import Role
from sterna.model.workload import Contract, Program
from tests.engines.contracts.jobs import job, worker


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("$(A)", "1", id="a name"),
        pytest.param("x$(A)y$(A)", "x1y1", id="within words, many times"),
        pytest.param("$(NOBODY)", "$(NOBODY)", id="a name that nobody defines stays"),
        pytest.param("$$(A)", "$(A)", id="two dollars are one, and no name"),
        pytest.param("$$$(A)", "$1", id="three dollars"),
        pytest.param("$A ${A} $", "$A ${A} $", id="the shell's own is the shell's"),
        pytest.param("$(A", "$(A", id="a name without end"),
        pytest.param("$(date)", "$(date)", id="a command of the shell"),
        pytest.param("$()", "$()", id="the empty name"),
        pytest.param("$(B)", "$(A)", id="what was filled in is not looked at again"),
        pytest.param("$(A) $(A $$ $$(A $$$", "1 $(A $ $(A $$", id="names without end after the last one that has one"),
    ],
)
def test_names_are_filled_in_as_kubernetes_does(text, expected):
    assert expanded(text, {"A": "1", "B": "$(A)"}) == expected


def doubling(times: int, seed: str = "x" * 64) -> tuple[tuple[str, str], ...]:
    return (("V0", seed), *((f"V{number + 1}", f"$(V{number})$(V{number})") for number in range(times)))


WIDE = (("A", "x" * 60_000),)


@pytest.mark.parametrize(
    ("program", "field"),
    [
        pytest.param(Program(argv=("train",), env=doubling(23)), "env V11", id="variables that double"),
        pytest.param(Program(argv=("train",), env=(*WIDE, ("B", "$(A)" * 10_000))), "env B", id="many times in one"),
        pytest.param(Program(argv=("train", "$(A)" * 10_000), env=WIDE), "command[1]", id="many times in a word"),
        pytest.param(Program(argv=("train", *["$(A)"] * 4000), env=WIDE), "command[17]", id="in very many words"),
        pytest.param(
            Program(argv=("train",), env=(*WIDE, *((f"B{number}", "$(A)") for number in range(999)))),
            "env B16",
            id="in very many variables",
        ),
        pytest.param(Program(argv=("train", "x" * 2**17)), "command[1]", id="a word that was too long as written"),
        pytest.param(Program(argv=("train", "ä" * 2**16)), "command[1]", id="bytes are counted, not letters"),
        pytest.param(Program(argv=("train", "$(" * 2**19)), "command[1]", id="names that never end"),
    ],
)
def test_what_is_filled_in_is_bounded(program, field):
    """... by naming the field, and before it is made: the check itself stays small."""
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest) as refused:
            launch_of(program, given={}, fields={}, where="job default/a: worker")
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert refused.value.field == f"job default/a: worker: {field}"
    assert "bytes" in refused.value.expected
    assert peak_bytes < 8 * LAUNCH_BYTES_MAX
    assert len(str(refused.value)) < 400


def test_the_longest_that_linux_takes_is_taken():
    longest = "x" * WORD_BYTES_MAX
    assert launch_of(Program(argv=("train", longest)), given={}, fields={}).argv[1] == longest
    named = Program(argv=("train",), env=(("A", longest[2:]),))
    assert launch_of(named, given={}, fields={}).env == {"A": longest[2:]}


def test_later_variables_may_use_earlier_ones_and_the_engines():
    program = Program(
        argv=("train", "--rank=$(RANK)", "--out=$(OUT)"),
        env=(("BASE", "/data"), ("OUT", "$(BASE)/$(JOB)/$(RANK)"), ("EARLY", "$(LATE)"), ("LATE", "x")),
        env_fields=(("JOB", "metadata.name"),),
        pre_stop=("sh", "-c", "echo $(date)"),
    )
    launch = launch_of(program, given={"RANK": "3"}, fields={"metadata.name": "job1-worker-3"})
    assert launch.argv == ("train", "--rank=3", "--out=/data/job1-worker-3/3")
    assert launch.env["EARLY"] == "$(LATE)"
    assert launch.pre_stop == ("sh", "-c", "echo $(date)")


def test_what_the_engine_sets_wins():
    program = Program(argv=("train",), env=(("JOB_NAME", "placeholder"), ("NAME", "$(JOB_NAME)")))
    launch = launch_of(program, given={"JOB_NAME": "job1"}, fields={})
    assert launch.env == {"JOB_NAME": "job1", "NAME": "job1"}


def test_directories_may_lie_elsewhere():
    program = Program(
        argv=("horovodrun", "--host-discovery-script", "/etc/mpi/discover_hosts.sh"),
        env=(("HOSTS", "/etc/mpi/hostfile"),),
        pre_stop=("cat", "/etc/mpi/hostfile"),
    )
    launch = launch_of(program, given={}, fields={}, moved={"/etc/mpi": "/run/job"})
    assert launch.argv[-1] == "/run/job/discover_hosts.sh"
    assert launch.env == {"HOSTS": "/run/job/hostfile"}
    assert launch.pre_stop == ("cat", "/run/job/hostfile")


def test_fields_of_a_pod():
    workload = job(
        "PyTorchJob",
        Contract.RESTART,
        (Role.MASTER, 1),
        namespace="lab",
        labels=(("app", "vision"),),
        annotations=(("a/b", "c"),),
    )
    fields = pod_fields(workload, worker(1), uid="job1-worker-1-abcde", host_ip="10.0.0.1", pod_ip="10.1.0.1")
    wanted = {
        "metadata.name": "job1-worker-1",
        "metadata.namespace": "lab",
        "metadata.uid": "job1-worker-1-abcde",
        "spec.nodeName": "n1",
        "status.hostIP": "10.0.0.1",
        "status.podIP": "10.1.0.1",
        "metadata.labels['app']": "vision",
        "metadata.labels['training.kubeflow.org/replica-index']": "1",
        "metadata.annotations['a/b']": "c",
    }
    assert {key: fields[key] for key in wanted} == wanted
