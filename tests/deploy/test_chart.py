"""What the chart makes of values, and which values it refuses."""

import base64
import json
import re
import shutil

import pytest

from sterna import __version__
from sterna.engines.kubernetes.loop.rules import KEYS
from sterna.engines.kubernetes.process.settings import CONFIG, ENDS, KNOWLEDGE, LEASE, MEMORY, OperatorConfig
from sterna.engines.kubernetes.progress.monitor_tokens import AUDIENCE
from sterna.lifecycle.rule_names import NO_REBALANCING, settings_in
from sterna.placement.rebalancers.registry import REBALANCERS
from sterna.placement.strategies import PLACEMENTS
from sterna.policies.registry import ENTRIES
from sterna.protocol.tokens import SECRET_BYTES_MIN
from tests.deploy.helm import HelmFailed
from tests.deploy.rbac import roles_of
from tests.deploy.rendering import CHART, CRDS, NAMESPACE, objects, of_kind, render, the_only

SCHEMA = json.loads((CHART / "values.schema.json").read_text())


def test_the_charts_version_is_the_programs():
    chart = objects((CHART / "Chart.yaml").read_text())[0]
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        pytest.param({"replica": 3}, "Additional property replica is not allowed", id="a typing mistake"),
        pytest.param({"image.tagg": "1"}, "image: Additional property tagg is not allowed", id="one further down"),
        pytest.param({"replicas": "two"}, "replicas: Invalid type. Expected: integer", id="a word for a number"),
        pytest.param({"replicas": -1}, "replicas: Must be greater than or equal to 0", id="fewer than none"),
        pytest.param({"binding": "nodeName"}, "binding must be one of", id="an unknown way to bind"),
        pytest.param({"watchNamespaces": "research"}, "watchNamespaces: Invalid type. Expected: array", id="no list"),
        pytest.param({"watchNamespaces": ["Research"]}, "watchNamespaces.0: Does not match", id="no namespace's name"),
        pytest.param({"watchNamespaces": ["kube-system"]}, "watchNamespaces.0", id="the cluster's own namespace"),
        pytest.param({"excludeNamespaces": ["No"]}, "excludeNamespaces.0: Does not match", id="no name either"),
        pytest.param({"healthPort": 70000}, "healthPort: Must be less than or equal to 65535", id="no port"),
        pytest.param({"config.policy": "elastic_fifo"}, "config.policy must be one of", id="no policy"),
        pytest.param({"config.placement": "pack"}, "config.placement must be one of", id="no placement"),
        pytest.param({"config.rateLimitSeconds": "2s"}, "config.rateLimitSeconds: Invalid type", id="a unit too many"),
        pytest.param({"config.rebalance": "specn"}, "config.rebalance: Does not match", id="no rebalancer"),
        pytest.param({"monitor.port": 0}, "monitor.port: Must be greater than or equal to 1", id="no port either"),
        pytest.param({"config.polcy": "fifo"}, "config: Additional property polcy", id="no key of the configuration"),
        pytest.param({"networkPolicy.apiServerPorts": []}, "Array must have at least 1 items", id="nowhere to go"),
        pytest.param({"runAsUser": 0}, "runAsUser: Must be greater than or equal to 1", id="root"),
        pytest.param({"image.digest": "sha256:abc"}, "image.digest: Does not match pattern", id="half a digest"),
        pytest.param({"resources.limits": {"memory": "a lot"}}, "memory: Does not match pattern", id="no quantity"),
        pytest.param({"journal.files": 0}, "journal.files: Must be greater than or equal to 1", id="no file"),
        pytest.param({"journal.fileSize": "1Gi"}, "journal.fileSize: Does not match pattern", id="no size in Mi"),
        pytest.param({"journal.existingClaim": "No"}, "journal.existingClaim: Does not match", id="no claim's name"),
        pytest.param({"nodeSelector": {"gpu": True}}, "nodeSelector.gpu: Invalid type", id="a label that is no text"),
    ],
)
def test_values_that_cannot_be_meant_are_refused(values, complaint):
    with pytest.raises(HelmFailed, match="values don't meet the specifications") as refused:
        render(values)
    assert complaint in str(refused.value)


def test_the_schema_is_strict_everywhere_it_names_keys():
    def loose(schema, path="values"):
        if "properties" in schema and "$ref" not in schema:
            # an environment variable and its like are Kubernetes' own objects: the API server checks them
            if schema.get("additionalProperties") is not False and not path.endswith("extraEnv[]"):
                yield path
            for name, below in schema["properties"].items():
                yield from loose(below, f"{path}.{name}")
        if "items" in schema:
            yield from loose(schema["items"], f"{path}[]")

    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert list(loose(SCHEMA)) == []


def test_the_schema_and_the_defaults_name_the_same_values():
    """`global` is Helm's own: it sets it where the chart is a part of another one."""
    defaults = objects((CHART / "values.yaml").read_text())[0]

    def named(schema, values, path=""):
        for name, below in schema.get("properties", {}).items():
            if f"{path}{name}" != "global" and path != "config.":
                yield f"{path}{name}", name in values
                yield from named(below, values.get(name) or {}, f"{path}{name}.") if below.get("properties") else ()

    assert [name for name, documented in named(SCHEMA, defaults) if not documented] == []


def test_policies_and_placements_in_the_schema_are_those_there_are():
    config = SCHEMA["properties"]["config"]["properties"]
    assert config["policy"]["enum"] == sorted(entry.name for entry in ENTRIES)
    assert config["placement"]["enum"] == sorted(PLACEMENTS)
    assert set(config) == set(KEYS)
    documented = (CHART / "values.yaml").read_text()
    assert [key for key in KEYS if f"#   {key}: " not in documented] == []


def test_names_that_the_operator_looks_for_are_those_in_the_chart():
    bodies = objects(render(release="anything"))
    assert [body["metadata"]["name"] for body in of_kind(bodies, "ConfigMap")] == [CONFIG]
    named = {
        name
        for role in roles_of(bodies, "anything-sterna")
        for rule in role["rules"]
        for name in rule.get("resourceNames", ())
    }
    assert named == {LEASE, CONFIG, MEMORY, KNOWLEDGE, ENDS}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param({}, None, id="what is not named is left to whoever sets it at run time"),
        pytest.param({"policy": "afs-l"}, {"policy": "afs-l"}, id="a policy"),
        pytest.param(
            {"rateLimitSeconds": 0, "starvingAfterSeconds": 2500000},
            {"rateLimitSeconds": "0", "starvingAfterSeconds": "2500000"},
            id="numbers become text, zero and large ones too",
        ),
    ],
)
def test_the_configuration_has_what_the_values_name(config, expected):
    assert the_only(objects(render({"config": config})), "ConfigMap").get("data") == expected


def test_settings_of_a_policy_come_out_as_the_operator_reads_them():
    settings = {"promote-knob": 8, "demote": "jump", "thresholds": "60,1000000", "service": 1000000, "strict": True}
    data = the_only(objects(render({"config": {"policy": "las", "settings": settings}})), "ConfigMap")["data"]
    assert settings_in(data["settings"]) == {
        "promote-knob": "8",
        "demote": "jump",
        "thresholds": "60,1000000",
        "service": "1000000",
        "strict": "true",
    }


def test_rebalancers_and_their_settings_come_out_as_the_operator_reads_them():
    config = {"rebalance": "specon, drain", "rebalanceSettings": {"specon.round": 30}}
    data = the_only(objects(render({"config": config})), "ConfigMap")["data"]
    assert data["rebalance"] == "specon, drain"
    assert settings_in(data["rebalanceSettings"]) == {"specon.round": "30"}


def test_rebalancers_in_the_schema_are_those_there_are():
    pattern = re.compile(SCHEMA["properties"]["config"]["properties"]["rebalance"]["pattern"])
    names = [entry.name for entry in REBALANCERS]
    assert [name for name in (*names, ", ".join(names), NO_REBALANCING) if not pattern.search(name)] == []
    assert pattern.search("specon,") is None


@pytest.mark.parametrize("elsewhere", ["", "watchers"])
def test_the_monitor_and_the_operator_find_each_other(elsewhere):
    bodies = objects(render({"monitor.enabled": True, "monitor.port": 9081, "monitor.namespace": elsewhere}))
    monitor = the_only(bodies, "DaemonSet")
    assert monitor["metadata"]["namespace"] == (elsewhere or NAMESPACE)
    operator = the_only(bodies, "Deployment")["spec"]["template"]
    (watching,), (deciding,) = monitor["spec"]["template"]["spec"]["containers"], operator["spec"]["containers"]
    door = next(body for body in of_kind(bodies, "Service") if body["metadata"]["name"] == "sterna-door")
    url = f"http://sterna-door.{NAMESPACE}.svc:{door['spec']['ports'][0]['port']}"
    assert f"--scheduler={url}" in watching["args"]
    assert door["spec"]["selector"].items() <= operator["metadata"]["labels"].items()
    assert "--monitor-port=9081" in deciding["args"]
    assert "--port=9081" in watching["args"]
    where, account = elsewhere or NAMESPACE, monitor["spec"]["template"]["spec"]["serviceAccountName"]
    assert f"--monitor-account={where}/{account}" in deciding["args"]
    assert {"name": account, "namespace": where}.items() <= named(bodies, "ServiceAccount", account)["metadata"].items()


@pytest.mark.parametrize("values", [{}, {"monitor.namespace": "watchers"}, {"monitor.logs": True}])
def test_s4_the_installations_secret_is_in_the_operators_pods_and_nowhere_else(values):
    bodies = objects(render({"monitor.enabled": True, **values}, tests=True))
    secret = the_only(bodies, "Secret")
    assert secret["metadata"]["namespace"] == NAMESPACE
    assert len(base64.b64decode(secret["data"]["token"])) >= SECRET_BYTES_MIN
    mounting = [
        body["kind"]
        for body, spec in pod_specs(bodies)
        if any("secret" in volume for volume in spec.get("volumes", []))
        or "secretKeyRef" in json.dumps(spec)
        or "secretRef" in json.dumps(spec)
    ]
    assert mounting == ["Deployment"]


def test_s4_a_monitors_token_is_its_pods_own_is_replaced_and_opens_the_door_alone():
    bodies = objects(render({"monitor.enabled": True}))
    spec = the_only(bodies, "DaemonSet")["spec"]["template"]["spec"]
    (volume,) = [volume for volume in spec["volumes"] if volume["name"] == "token"]
    (source,) = volume["projected"]["sources"]
    assert source["serviceAccountToken"] == {"audience": AUDIENCE, "expirationSeconds": 3600, "path": "token"}
    assert spec["automountServiceAccountToken"] is False, "no token for the API server"
    assert roles_of(bodies, spec["serviceAccountName"]) == [], "and no rights there"


def pod_specs(bodies):
    """What makes pods, and the pods' spec."""
    for body in of_kind(bodies, "Deployment", "DaemonSet", "Pod"):
        yield body, body["spec"]["template"]["spec"] if "template" in body["spec"] else body["spec"]


def named(bodies, kind, name):
    (found,) = [body for body in of_kind(bodies, kind) if body["metadata"]["name"] == name]
    return found


def test_without_the_monitor_there_is_no_door_and_no_secret():
    bodies = objects(render())
    assert of_kind(bodies, "DaemonSet", "Secret") == []
    assert len(of_kind(bodies, "Service")) == 1
    (operator,) = the_only(bodies, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert [arg for arg in operator["args"] if "door" in arg or "monitor" in arg or "token" in arg] == []


def test_definitions_are_those_that_are_checked_in_and_are_kept_at_the_end():
    checked_in = [body for path in sorted(CRDS.glob("*.yaml")) for body in objects(path.read_text())]
    assert checked_in
    rendered = of_kind(objects(render()), "CustomResourceDefinition")
    for body in rendered:
        assert body["metadata"]["annotations"].pop("helm.sh/resource-policy") == "keep"
        if not body["metadata"]["annotations"]:
            del body["metadata"]["annotations"]
    assert rendered == checked_in
    assert of_kind(objects(render({"crds.install": False})), "CustomResourceDefinition") == []


def test_the_monitors_probes_come_by_a_port_of_their_own_on_the_nodes_loopback():
    """So that no crowd at the port of reports can have the monitor restarted, and pods cannot even try."""
    daemon = the_only(objects(render({"monitor.enabled": True, "monitor.healthPort": 9182})), "DaemonSet")
    pod = daemon["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["hostNetwork"] is True
    assert "--health-port=9182" in container["args"]
    assert [arg for arg in container["args"] if "health-host" in arg] == []  # loopback, which is the default
    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": 9182, "host": "127.0.0.1"}
    assert [port["containerPort"] for port in container["ports"]] == [8081]


def test_an_old_cluster_gets_the_disruption_budget_it_knows():
    assert the_only(objects(render(kube_version="1.20.2")), "PodDisruptionBudget")["apiVersion"] == "policy/v1beta1"
    assert the_only(objects(render(kube_version="1.21.0")), "PodDisruptionBudget")["apiVersion"] == "policy/v1"


def test_a_cluster_that_is_too_old_is_refused():
    with pytest.raises(HelmFailed, match=r"incompatible with Kubernetes v1\.19"):
        render(kube_version="1.19.16")


def test_what_selects_the_operators_pods_finds_them():
    bodies = objects(
        render({"metrics.serviceMonitor.enabled": True, "podLabels": {"team": "platform"}}, release="mine")
    )
    labels = the_only(bodies, "Deployment")["spec"]["template"]["metadata"]["labels"]
    service, monitor = the_only(bodies, "Service"), the_only(bodies, "ServiceMonitor")
    selectors = {
        "Deployment": the_only(bodies, "Deployment")["spec"]["selector"]["matchLabels"],
        "Service": service["spec"]["selector"],
        "PodDisruptionBudget": the_only(bodies, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        "NetworkPolicy": the_only(bodies, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    }
    assert [kind for kind, selector in selectors.items() if not selector.items() <= labels.items()] == []
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]


def test_the_pod_that_helm_test_runs_may_reach_the_operator():
    bodies = objects(render(tests=True))
    pod, policy = the_only(bodies, "Pod"), the_only(bodies, "NetworkPolicy")
    admitted = policy["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
    assert admitted.items() <= pod["metadata"]["labels"].items()
    service = the_only(bodies, "Service")
    url = f"http://{service['metadata']['name']}.{NAMESPACE}.svc:{service['spec']['ports'][0]['port']}/readyz"
    assert pod["spec"]["containers"][0]["command"][-1] == url
    selector = service["spec"]["selector"]
    assert not selector.items() <= pod["metadata"]["labels"].items()  # it must not answer for the operator


def test_an_image_is_named_by_tag_or_by_digest():
    def image(**values: str) -> str:
        """Of the operator, the monitor and the pod of `helm test`, which are one."""
        given = {f"image.{key}": value for key, value in values.items()}
        bodies = objects(render({**given, "monitor.enabled": True}, tests=True))
        (found,) = {container["image"] for _, spec in pod_specs(bodies) for container in spec["containers"]}
        return str(found)

    digest = "sha256:" + "0" * 64
    assert image() == f"sterna:{__version__}"
    assert image(repository="registry.example:5000/ml/sterna", tag="dev") == "registry.example:5000/ml/sterna:dev"
    assert image(tag="dev", digest=digest) == f"sterna@{digest}"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        pytest.param({}, "jobs in all namespaces but kube-system, ", id="everything"),
        pytest.param({"excludeNamespaces": ["billing"]}, "kube-node-lease, sterna-system, billing.", id="but one"),
        pytest.param({"watchNamespaces": ["research", "teaching"]}, "jobs in: research, teaching", id="some"),
        pytest.param({"replicas": 1}, "There is one replica", id="one replica"),
        pytest.param({"crds.install": False}, "were not installed", id="no definitions"),
        pytest.param({"metrics.serviceMonitor.enabled": True}, "no metrics yet", id="nothing to scrape"),
    ],
)
def test_the_notes_say_what_was_installed(tmp_path, values, said):
    assert said in notes(values, tmp_path)


def notes(values, directory):
    """What `helm install` says at its end. `helm template` omits it, so a copy of the chart has it in an object."""
    chart = shutil.copytree(CHART, directory / "sterna")
    text = (chart / "templates" / "NOTES.txt").read_text()
    (chart / "templates" / "_notes.tpl").write_text(f'{{{{ define "notes" }}}}{text}{{{{ end }}}}')
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes}\n"
    (chart / "templates" / "notes.yaml").write_text(head + 'data: {notes: {{ include "notes" . | toJson }}}\n')
    return named(objects(render(values, chart=chart)), "ConfigMap", "notes")["data"]["notes"]


def journal_of(values):
    """The operator's pod, its arguments about the journal, and its volume for it."""
    pod = the_only(objects(render(values)), "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    arguments = [argument for argument in container["args"] if "journal" in argument]
    mounts = [mount["mountPath"] for mount in container.get("volumeMounts", []) if mount["name"] == "journal"]
    volumes = [volume for volume in pod.get("volumes", []) if volume["name"] == "journal"]
    return pod, arguments, mounts, volumes


def test_the_journal_is_on_a_volume_that_its_files_fit_into():
    pod, arguments, mounts, (volume,) = journal_of({"journal.files": 4, "journal.fileSize": "32Mi"})
    (directory,) = mounts
    assert arguments == [f"--journal={directory}", "--journal-files=4", "--journal-file-size=32Mi"]
    assert volume["emptyDir"] == {"sizeLimit": "192Mi"}
    assert "fsGroup" not in pod["securityContext"]


def test_the_journal_may_be_on_a_claim():
    pod, _, _, (volume,) = journal_of({"journal.existingClaim": "kept"})
    assert volume["persistentVolumeClaim"] == {"claimName": "kept"}
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsUser"]


@pytest.mark.parametrize("monitor", [False, True], ids=["nothing else", "the monitor's token"])
def test_the_journal_may_be_off(monitor):
    pod, arguments, mounts, volumes = journal_of({"journal.enabled": False, "monitor.enabled": monitor})
    assert (arguments, mounts, volumes) == ([], [], [])
    assert ("volumes" in pod) is monitor


def test_the_chart_gives_nodes_that_are_silent_or_flap_as_long_as_the_operator_does_by_itself():
    defaults = OperatorConfig()
    own = {"nodeLostAfterSeconds": 0.5, "nodeSteadyAfterSeconds": 60}
    for values, lost_s, steady_s in (({}, defaults.node_lost_after_s, defaults.node_steady_after_s), (own, 0.5, 60.0)):
        pod, *_ = journal_of(values)
        expected = {f"--node-lost-after={lost_s:g}s", f"--node-steady-after={steady_s:g}s"}
        assert expected <= set(pod["containers"][0]["args"])


def test_the_charts_journal_is_what_the_operator_takes_for_itself():
    _, arguments, _, _ = journal_of({})
    defaults = OperatorConfig()
    assert f"--journal-files={defaults.journal_files_max}" in arguments
    assert f"--journal-file-size={defaults.journal_bytes_max >> 20}Mi" in arguments
