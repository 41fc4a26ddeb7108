"""What an operator is told when it is started. How it decides may change while it runs: that is `rules.py`."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from sterna.journal.decision_journal import BYTES_MAX, FILES_MAX
from sterna.lifecycle.admission_denials import PATIENCE_S
from sterna.lifecycle.node_trust import LOST_AFTER_S, STEADY_AFTER_S
from sterna.model.errors import InvalidRequest

NAMESPACE = "sterna-system"
CONFIG = "sterna-config"  # the ConfigMap that people write
MEMORY = "sterna-memory"  # the ConfigMap that the operator keeps what a policy remembers in
KNOWLEDGE = "sterna-knowledge"  # ... and this what was learned of how fast jobs train
ENDS = "sterna-finished"  # ... and this which jobs have ended
OWN_CONFIG_MAPS = frozenset({CONFIG, MEMORY, KNOWLEDGE, ENDS})  # no ConfigMap of a job has one of these names
LEASE = "sterna"
SYSTEM = ("kube-system", "kube-public", "kube-node-lease")  # the cluster's own: no job is ever run there
RATE_LIMIT_S = 2.0
POLICY = "elastic-fifo"

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_ACCOUNT = re.compile(rf"{_NAME.pattern}/[a-z0-9]([-.a-z0-9]{{0,251}}[a-z0-9])?")
_DOMAIN = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")


class Binding(StrEnum):
    """How a pod gets onto its node."""

    NODE_NAME = "node-name"  # it is created there
    BINDING = "binding"  # it is created without a node and bound at once, as a scheduler does it
    NONE = "none"  # by the cluster's own scheduler; sizes are still ours


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorConfig:
    namespace: str = NAMESPACE  # its own: Lease, memory and configuration are there
    watch: tuple[str, ...] | None = None  # namespaces whose jobs are ours. None: all of them but those left out
    see_all_pods: bool = False  # where namespaces are named: count pods of the others as well, since they take room
    exclude: tuple[str, ...] = ()  # namespaces to leave out, beside the cluster's and our own
    identity: str = "sterna"  # of this replica; no two replicas may share one
    binding: Binding = Binding.NODE_NAME
    nudge: bool = False  # touch a launcher when its host list changes, so that its kubelet looks at once
    mpi_jobs: bool = True  # False: MPIJobs are left alone, and no config map outside our own namespace is looked at
    kubeshare: bool = False  # count SharePods, and place those of high priority
    share_learning: bool = False  # what is learned of a category counts in all namespaces, not only where it was
    policy: str = POLICY
    settings: Mapping[str, str] = field(default_factory=dict)  # of that policy
    placement: str | None = None  # None: the policy's own
    rate_limit_s: float = RATE_LIMIT_S  # between cycles
    starving_after_s: float | None = None
    idle_cpu_share: float | None = None  # of nodes with GPUs, for jobs without. None: the core's default
    rebalance: tuple[str, ...] = ()  # rebalancers, in the order in which they propose
    rebalance_settings: Mapping[str, str] = field(default_factory=dict)
    monitor_port: int | None = None  # where the monitor of a pod's own node listens. None: pods are told of none
    token_file: Path | None = None  # the installation's secret. None: there is none, and no monitor may report
    monitor_account: str | None = None  # namespace/name of the service account of monitors. None: they have no such one
    elect: bool = True  # False: this is the only replica, and no Lease is asked for
    lease_s: float = 15.0
    renew_s: float = 5.0
    retry_s: float = 2.0  # how often a standby asks for the Lease, and how soon trouble is tried again
    retry_max_s: float = 15.0  # a recovered API server is not kept waiting for longer
    admission_patience_s: float = PATIENCE_S  # how long refused pods are tried before their job gives its seats back
    look_again_s: float = 600.0  # every job is looked at this often, give or take a fifth, although nothing happened
    cluster_domain: str = ""  # appended to the names of services. Empty: the shortest name that resolves
    node_lost_after_s: float = LOST_AFTER_S  # a node that is not ready for so long is lost, with all that is there
    node_steady_after_s: float = STEADY_AFTER_S  # a node that flaps is given nothing new before it was steady so long
    in_flight: int = 32  # jobs carried on at the same time
    migrations_max: int = 100  # open Migrations of one namespace; those beyond are refused
    health_host: str = "127.0.0.1"
    health_port: int | None = None  # None: probes are not answered
    door_host: str = "127.0.0.1"
    door_port: int | None = None  # where monitors report and moves are asked for. None: nowhere
    journal: Path | None = None  # the directory of decisions that can be replayed. None: they are not kept
    journal_bytes_max: int = BYTES_MAX  # of one file
    journal_files_max: int = FILES_MAX
    distribution_file: Path | None = None  # what rebalancers looked at, in SpeCon's columns. None: events alone say it

    def __post_init__(self) -> None:
        _require(self.binding in list(Binding), "binding", self.binding, f"one of {', '.join(Binding)}")
        object.__setattr__(self, "binding", Binding(self.binding))  # a command line gives the word, which equals it
        _require(_NAME.fullmatch(self.namespace), "namespace", self.namespace, "the name of a namespace")
        for name in self.watch or ():
            _require(_NAME.fullmatch(name), "watch namespace", name, "the name of a namespace")
            _require(name not in SYSTEM, "watch namespace", name, "one that is not the cluster's own")
        _require(self.watch is None or self.watch, "watch namespace", self.watch, "at least one namespace")
        for name in self.exclude:
            _require(_NAME.fullmatch(name), "exclude namespace", name, "the name of a namespace")
            _require(name not in (self.watch or ()), "exclude namespace", name, "one that is not watched")
        _require(self.identity.strip(), "identity", self.identity, "a name that no other replica has")
        domain = self.cluster_domain
        _require(not domain or _DOMAIN.fullmatch(domain), "cluster domain", domain, "a domain such as cluster.local")
        periods = {"lease": self.lease_s, "renew": self.renew_s, "retry": self.retry_s, "look again": self.look_again_s}
        for what, seconds in periods.items():
            _require(0 < seconds < math.inf, what, seconds, "seconds, more than 0")
        patience_s = self.admission_patience_s
        _require(0 <= patience_s < math.inf, "admission patience", patience_s, "seconds, 0 or more")
        _require(self.renew_s < self.lease_s, "renew", self.renew_s, f"less than the lease itself ({self.lease_s:g} s)")
        for what, seconds in (("lost", self.node_lost_after_s), ("steady", self.node_steady_after_s)):
            _require(0 <= seconds < math.inf, f"node {what} after", seconds, "seconds, 0 or more")
        _require(self.in_flight > 0, "in flight", self.in_flight, "at least 1")
        _require(self.journal_bytes_max > 0, "journal bytes max", self.journal_bytes_max, "at least 1")
        _require(self.journal_files_max > 0, "journal files max", self.journal_files_max, "at least 1")
        _require(self.migrations_max > 0, "migrations max", self.migrations_max, "at least 1")
        port = self.health_port
        _require(port is None or 0 <= port <= 65535, "health port", port, "a port between 0 and 65535")
        port = self.monitor_port
        _require(port is None or 0 < port <= 65535, "monitor port", port, "a port between 1 and 65535")
        expected = "a token file beside it: what pods report by is made from it"
        _require(port is None or self.token_file is not None, "monitor port", port, expected)
        account = self.monitor_account
        expected = "the namespace and name of a service account, such as sterna-system/sterna-monitor"
        _require(account is None or _ACCOUNT.fullmatch(account), "monitor account", account, expected)
        port = self.door_port
        _require(port is None or 0 <= port <= 65535, "door port", port, "a port between 0 and 65535")
        expected = "a token file beside it: a client of the door can move work"
        _require(port is None or self.token_file is not None, "door port", port, expected)

    def excludes(self, namespace: str) -> bool:
        """Are jobs in this namespace refused? Not in our own, if it is named as one to watch."""
        return namespace in (*SYSTEM, *self.exclude) or (self.watch is None and namespace == self.namespace)


def _require(good: object, field_: str, value: object, expected: str) -> None:
    if not good:
        raise InvalidRequest(field=field_, value=value, expected=expected)
