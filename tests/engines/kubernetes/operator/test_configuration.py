"""What people change while the operator runs, and what probes are told."""

import json
import urllib.error
import urllib.request
from typing import Any

from tests.cluster.requests import until
from tests.engines.kubernetes.operator.lab import ELECTION, Lab, RunningOperator, elastic_job, tf_job


def probe(operator: RunningOperator, path: str) -> tuple[int, dict[str, Any]]:
    until(lambda: operator.operator.health_port is not None, "probes are answered")
    url = f"http://127.0.0.1:{operator.operator.health_port}{path}"
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_voda_6_the_policy_is_changed_while_it_runs_and_a_bogus_one_changes_nothing(lab: Lab):
    lab.nodes.add(1, gpus=4)
    with lab.operator(policy="fifo", health_port=0) as operator:
        lab.create(tf_job("job", workers=2, low=2, high=4, ps=0))
        lab.until_pods("job-worker-0", "job-worker-1")
        lab.config_map("sterna-config", {"policy": "bogus"})
        until(lambda: "bogus" in operator.operator.health().problem, "it says what is wrong")
        code, said = probe(operator, "/readyz")
        assert (code, said["policy"]) == (200, "fifo")
        assert "bogus" in said["problem"]
        until(
            lambda: any(reason == "ConfigurationRefused" for reason, _ in lab.events("sterna-config")),
            "whoever wrote it is told",
            story=lambda: lab.events("sterna-config"),
        )
        assert lab.pods().keys() == {"job-worker-0", "job-worker-1"}
        lab.config_map("sterna-config", {"policy": "elastic-fifo", "rateLimitSeconds": "0.5"})
        lab.until_pods(*(f"job-worker-{n}" for n in range(4)))
        assert operator.operator.decider.pacer.rate_limit_s == 0.5
        assert not operator.operator.health().problem
        lab.api.delete(f"/api/v1/namespaces/{lab.namespace}/configmaps/sterna-config")
        until(lambda: operator.operator.rules.size.name == "fifo", "it is as it was started")


def test_probes_tell_who_leads_and_what_is_known(lab: Lab):
    with lab.operator(identity="one", health_port=0, **ELECTION) as one:
        one.until_leads()
        lab.create(elastic_job("job", low=1, high=1))
        until(lambda: probe(one, "/readyz")[1]["jobs"] == 1, "it knows the job")
        code, said = probe(one, "/healthz")
        assert (code, said["ok"], said["role"]) == (200, True, "leader")
        with lab.operator(identity="two", health_port=0, **ELECTION) as two:
            until(lambda: probe(two, "/readyz")[0] == 200, "a standby is as ready as a leader")
            until(lambda: probe(two, "/readyz")[1]["leader"].startswith("one"), "it has read who leads")
            assert probe(two, "/readyz")[1]["role"] == "standby"
