"""Pods and services as they are written: names, labels, owners, environment, what of the template stays."""

import copy
import json
from typing import Any

import pytest

from sterna.engines.contracts.naming import worker_name
from sterna.engines.kubernetes.bodies.pod_body import members_of, pod_body
from sterna.engines.kubernetes.process.settings import Binding
from sterna.engines.kubernetes.reconcile.job_view import Options
from sterna.engines.kubernetes.status.standing import Seat, Standing
from sterna.model.jobs import Role
from sterna.model.workload import Contract, RestartPolicy
from tests.engines.kubernetes.reconcile.world import PS, World, at, template, workers, workload

JOB1 = workload(Contract.PARAMETER_SERVER, (Role.PS, 1), workers=(1, 4))
GANG = workload(Contract.RESTART, kind="ElasticJob", workers=(1, 4))
SAMPLE = (  # the document's, for worker 0 of job1
    '{"cluster":{"ps":["job1-ps-0.default.svc:2222"],"worker":["job1-worker-0.default.svc:2222",'
    '"job1-worker-1.default.svc:2222","job1-worker-2.default.svc:2222","job1-worker-3.default.svc:2222"]},'
    '"task":{"type":"worker","index":0},"environment":"cloud"}'
)


def env_of(pod, container=0):
    return {entry["name"]: entry.get("value") for entry in pod["spec"]["containers"][container]["env"]}


def made(world, seat, standing=None, **options):
    standing = standing or Standing(seats=(seat,), incarnation=1)
    given = Options(**options)
    view, name = world.look(), worker_name(world.workload, *seat.worker[:2])
    members = members_of(view, world.workload, standing, given)
    return pod_body(view, world.workload, standing, seat, given, hosts={}, members=members, name=name)


def test_dragon_4_names_labels_owners_and_services_of_job1():
    world = World(JOB1).started(PS, *workers(4))
    assert sorted(world.pods) == ["job1-ps-0", *(f"job1-worker-{index}" for index in range(4))]
    for name, pod in world.pods.items():
        _, kind, index = name.split("-")
        labels = dict(pod["metadata"]["labels"])
        slot = labels.pop("tf-job-workerid")
        assert len(slot) == 5
        assert slot.isalpha()
        assert labels.pop("tf-job-role", None) == ("master" if name == "job1-worker-0" else None)
        assert labels == {
            "group-name": "kubeflow.org",
            "tf-job-name": "job1",
            "tf-replica-type": kind,
            "tf-replica-index": index,
        }
        service = world.services[name]
        assert service["spec"]["clusterIP"] == "None"
        assert service["spec"]["publishNotReadyAddresses"] is True
        assert service["spec"]["selector"] == service["metadata"]["labels"] == labels
        assert service["spec"]["ports"] == [{"name": "tfjob-port", "port": 2222}]
        for found in (pod, service):
            (owner,) = found["metadata"]["ownerReferences"]
            assert owner == {
                "apiVersion": "kubeflow.org/v1",
                "kind": "TFJob",
                "name": "job1",
                "uid": "job-uid",
                "controller": True,
                "blockOwnerDeletion": True,
            }
    assert len({pod["metadata"]["labels"]["tf-job-workerid"] for pod in world.pods.values()}) == 5


def test_dragon_2_the_very_first_pod_has_its_port_and_restart_policy():
    world = World(JOB1)
    world.rest()
    world.grow(PS, at(0))
    pod = world.pods["job1-worker-0"]
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["spec"]["containers"][0]["ports"] == [{"name": "tfjob-port", "containerPort": 2222}]


def test_dragon_5_the_environment_of_job1_equals_the_documents_sample():
    world = World(JOB1)
    world.rest()
    world.grow(PS, *workers(2))
    assert env_of(world.pods["job1-worker-0"])["TF_CONFIG"] == SAMPLE
    assert json.loads(env_of(world.pods["job1-ps-0"])["TF_CONFIG"])["task"] == {"type": "ps", "index": 0}


def test_dragon_5_the_cluster_domain_is_put_behind_every_name():
    world = World(JOB1, options=Options(cluster_domain="cluster.local"))
    world.rest()
    world.grow(PS, at(0))
    hosts = json.loads(env_of(world.pods["job1-worker-0"])["TF_CONFIG"])["cluster"]["ps"]
    assert hosts == ["job1-ps-0.default.svc.cluster.local:2222"]


def test_the_contract_reaches_every_container_and_goes_over_the_template():
    body = template("TFJob")
    body["spec"]["containers"].append(
        {"name": "helper", "image": "x", "env": [{"name": "TF_CONFIG", "value": "mine"}, {"name": "A", "value": "b"}]}
    )
    world = World(JOB1, templates={Role.PS: template(), Role.WORKER: body})
    pod = made(world, Seat(at(0), "abcde"))
    assert env_of(pod, 1)["TF_CONFIG"] == env_of(pod, 0)["TF_CONFIG"] != "mine"
    assert [entry["name"] for entry in pod["spec"]["containers"][1]["env"]][-1] == "A"  # theirs may refer to ours
    assert "STERNA_MAILBOX" in env_of(pod, 0)
    assert "STERNA_MAILBOX" not in env_of(pod, 1)


def test_everything_else_of_the_template_stays_and_the_template_is_not_touched():
    body: dict[str, Any] = {
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
        "spec": {
            "containers": [
                {
                    "name": "side",
                    "image": "y",
                    "lifecycle": {"preStop": {"exec": {"command": ["save"]}}},
                },
                {
                    "name": "tensorflow",
                    "image": "x",
                    "ports": [{"name": "tfjob-port", "containerPort": 7000}],
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                },
            ],
            "volumes": [{"name": "data", "emptyDir": {}}],
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 7,
            "priorityClassName": "high",
            "nodeName": "elsewhere",
            "newFieldOfTomorrow": {"x": 1},
        },
    }
    world = World(JOB1, templates={Role.PS: template(), Role.WORKER: body})
    before = copy.deepcopy(body)
    pod = made(world, Seat(at(1, "n2"), "abcde"))
    assert body == before
    spec = pod["spec"]
    assert spec["nodeName"] == "n2"
    assert (spec["terminationGracePeriodSeconds"], spec["priorityClassName"]) == (7, "high")
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["newFieldOfTomorrow"] == {"x": 1}
    assert spec["containers"][0]["lifecycle"] == before["spec"]["containers"][0]["lifecycle"]
    main = spec["containers"][1]
    assert main["ports"] == [{"name": "tfjob-port", "containerPort": 7000}]
    assert [mount["mountPath"] for mount in main["volumeMounts"]] == ["/data", "/var/run/sterna/mailbox"]
    assert [volume["name"] for volume in spec["volumes"]] == ["data", "sterna-mailbox"]
    assert "volumeMounts" not in spec["containers"][0]
    assert pod["metadata"]["labels"]["team"] == "a"
    assert pod["metadata"]["annotations"] == {"note": "b", "sterna.dev/incarnation": "1"}


@pytest.mark.parametrize(
    ("policy", "written"),
    [
        (RestartPolicy.EXIT_CODE, "Never"),
        (RestartPolicy.NEVER, "Never"),
        (RestartPolicy.ALWAYS, "Always"),
        (RestartPolicy.ON_FAILURE, "OnFailure"),
    ],
)
def test_dragon_10_exit_code_is_no_policy_of_pods(policy, written):
    world = World(workload(Contract.RESTART, restarts=policy, kind="PyTorchJob"))
    assert made(world, Seat(at(0), "abcde"))["spec"]["restartPolicy"] == written


@pytest.mark.parametrize(
    ("binding", "node", "scheduler"),
    [
        pytest.param(Binding.NODE_NAME, "n1", None, id="created on its node"),
        pytest.param(Binding.BINDING, None, "sterna", id="bound after it was created"),
        pytest.param(Binding.NONE, None, None, id="the cluster's own scheduler does it"),
    ],
)
def test_who_puts_a_pod_on_its_node(binding, node, scheduler):
    spec = made(World(GANG), Seat(at(0), "abcde"), binding=binding)["spec"]
    assert (spec.get("nodeName"), spec.get("schedulerName")) == (node, scheduler)


@pytest.mark.parametrize(
    ("annotations", "mounts", "directory"),
    [
        pytest.param((("sterna.dev/checkpoint-dir", "/mnt/ckpt/"),), (), "/mnt/ckpt/default/job1/job-uid", id="said"),
        pytest.param((), ("checkpoints",), "/vol/default/job1/job-uid", id="a volume of that name"),
        pytest.param((), ("checkpoint",), "/vol/default/job1/job-uid", id="or of this one"),
        pytest.param((), ("data",), None, id="any other volume is somebody else's"),
        pytest.param((("sterna.dev/checkpoint-dir", "relative"),), (), None, id="not a directory that could be meant"),
    ],
)
def test_where_checkpoints_are_kept(annotations, mounts, directory):
    body = template("ElasticJob")
    body["spec"]["containers"][0]["volumeMounts"] = [{"name": name, "mountPath": "/vol"} for name in mounts]
    of = workload(Contract.RESTART, kind="ElasticJob", annotations=annotations)
    world = World(of, templates={Role.WORKER: body})
    assert env_of(made(world, Seat(at(0), "abcde"))).get("STERNA_CHECKPOINT_DIR") == directory
    world.rest()
    assert ("NoCheckpointDirectory" in world.reasons) == (directory is None)


def test_the_sdk_is_told_who_it_is():
    seats = tuple(Seat(worker, "abcde") for worker in (at(0), at(2)))
    pod = made(World(GANG), seats[1], Standing(seats=seats, incarnation=7))
    env = env_of(pod)
    assert env["STERNA_JOB"] == "default/job1"
    assert (env["STERNA_RANK"], env["STERNA_WORLD_SIZE"], env["STERNA_INCARNATION"]) == ("1", "2", "7")
    assert (env["STERNA_SIGNALS"], env["STERNA_MAILBOX"]) == ("1", "/var/run/sterna/mailbox")
    assert "STERNA_WAKE" not in env
    assert "STERNA_GANG" not in env
    identity = next(entry for entry in pod["spec"]["containers"][0]["env"] if entry["name"] == "STERNA_WORKER")
    assert identity["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.uid"}}
    assert (env["MASTER_ADDR"], env["RANK"]) == ("job1-worker-0.default.svc", "1")


def test_members_that_come_and_go_by_themselves_keep_their_number():
    seats = tuple(Seat(worker, "abcde") for worker in (PS, at(2)))
    env = env_of(made(World(JOB1), seats[1], Standing(seats=seats, incarnation=1)))
    assert (env["STERNA_RANK"], env["STERNA_WORLD_SIZE"], env["STERNA_GANG"]) == ("2", "4", "0")


def test_torchruns_agents_are_told_who_of_them_is_the_host():
    world = World(workload(Contract.TORCHRUN, kind="PyTorchJob"))
    seats = tuple(Seat(worker, "abcde") for worker in workers(2))
    standing = Standing(seats=seats, incarnation=3)
    first, second = (env_of(made(world, seat, standing)) for seat in seats)
    assert first["PET_RDZV_ENDPOINT"] == second["PET_RDZV_ENDPOINT"] == "job1-worker-0.default.svc:23456"
    assert first["PET_RDZV_ID"] == second["PET_RDZV_ID"] == "default-job1-3"
    assert "is_host=true" in first["PET_RDZV_CONF"]
    assert "is_host=false" in second["PET_RDZV_CONF"]
    assert first["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"


def test_a_rendezvous_server_of_the_owners_is_left_alone():
    said = (("rdzvBackend", "etcd"), ("rdzvHost", "etcd.infra"), ("rdzvPort", "2379"))
    world = World(workload(Contract.TORCHRUN, kind="PyTorchJob", rendezvous=said))
    env = env_of(made(world, Seat(at(0), "abcde")))
    assert env["PET_RDZV_ENDPOINT"] == "etcd.infra:2379"
    assert "is_host" not in env["PET_RDZV_CONF"]


def test_a_parameter_server_with_the_chief_beside_it_has_two_ports():
    of = workload(Contract.PARAMETER_SERVER, (Role.PS, 1), details=(("chiefInPs", "true"),))
    world = World(of).started(PS, at(0))
    ports = world.services["job1-ps-0"]["spec"]["ports"]
    assert [(port["name"], port["port"]) for port in ports] == [("tfjob-port", 2222), ("chief-port", 2223)]
    assert len(world.services["job1-worker-0"]["spec"]["ports"]) == 1
