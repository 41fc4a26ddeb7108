"""How requirements on labels and rules between pods look in a snapshot file, and how they become ours and back."""

from typing import Annotated, Any

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from sterna.model.neighbours import ANY_ADDRESS, EvenRule, HostPort, PodSelector, PodTerm, PodTraits
from sterna.model.node_affinity import LabelOperator, LabelRequirement, values_expected
from sterna.wire.fields import Count
from sterna.wire.problems import Body

Port = Annotated[int, Field(ge=1, le=65535)]


class RequirementBody(Body):
    key: str = Field(description="a label, or metadata.name for the node's own name")
    operator: Annotated[LabelOperator, Field(strict=False)]
    values: list[str] = Field(default_factory=list, description="one or more for In and NotIn, a number for Gt and Lt")

    @model_validator(mode="after")
    def _complete(self) -> "RequirementBody":
        if (expected := values_expected(self.operator, tuple(self.values))) is not None:
            raise PydanticCustomError("values", "{expected}", {"expected": expected})
        return self

    def to_model(self) -> LabelRequirement:
        return LabelRequirement(self.key, self.operator, tuple(self.values))


class HostPortBody(Body):
    port: Port
    protocol: str = "TCP"
    address: str = Field(default=ANY_ADDRESS, description="of the node; 0.0.0.0: all of them")

    def to_model(self) -> HostPort:
        return HostPort(self.port, self.protocol, self.address)


class SelectorBody(Body):
    """Which pods are meant."""

    requirements: list[RequirementBody] | None = Field(
        default=None, description="on their labels: all of them hold; null: no pod is meant, empty: every pod is"
    )
    namespaces: list[str] = Field(default_factory=list)
    namespace_terms: list[RequirementBody] | None = Field(
        default=None, description="on labels of their namespaces; null: those named are meant, and no others"
    )

    def to_model(self) -> PodSelector:
        found = None if self.requirements is None else tuple(each.to_model() for each in self.requirements)
        spaces = None if self.namespace_terms is None else tuple(each.to_model() for each in self.namespace_terms)
        return PodSelector(found, tuple(self.namespaces), spaces)


class PodTermBody(Body):
    key: str = Field(description="the label of nodes whose values are the domains")
    pods: SelectorBody = SelectorBody()

    def to_model(self) -> PodTerm:
        return PodTerm(self.key, self.pods.to_model())


class EvenRuleBody(PodTermBody):
    skew_max: Count = Field(default=1, description="how many more of these pods a domain may have than any other")
    domains_min: Count = Field(default=1, description="with fewer domains than this the fewest counts as 0")
    by_affinity: bool = Field(default=True, description="only nodes that match the pod's own demands are counted")
    by_taints: bool = Field(default=False, description="only nodes whose taints the pod tolerates are counted")

    def to_rule(self) -> EvenRule:
        pods = self.pods.to_model()
        return EvenRule(self.key, pods, self.skew_max, self.domains_min, self.by_affinity, self.by_taints)


class PodBody(Body):
    """What a pod is to others: known only where some pod has a rule about the pods beside it."""

    namespace: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    ports: list[HostPortBody] = Field(default_factory=list, description="ports of its node that it takes")
    apart: list[PodTermBody] = Field(default_factory=list, description="required anti-affinity")
    together: list[PodTermBody] = Field(default_factory=list, description="required affinity")
    even: list[EvenRuleBody] = Field(default_factory=list, description="required spread over domains")

    def to_model(self) -> PodTraits:
        return PodTraits(
            self.namespace,
            tuple(sorted(self.labels.items())),
            tuple(port.to_model() for port in self.ports),
            tuple(term.to_model() for term in self.apart),
            tuple(term.to_model() for term in self.together),
            tuple(rule.to_rule() for rule in self.even),
        )


def pod_record(traits: PodTraits) -> dict[str, Any]:
    """What stands in a file, but for what is left out because it is so anyway."""
    record: dict[str, Any] = {
        "namespace": traits.namespace,
        "labels": dict(traits.labels),
        "ports": [_port(port) for port in traits.ports],
        "apart": [_term(term) for term in traits.apart],
        "together": [_term(term) for term in traits.together],
        "even": [_even(rule) for rule in traits.even],
    }
    return {key: value for key, value in record.items() if value}


def _port(port: HostPort) -> dict[str, Any]:
    return {"port": port.port, "protocol": port.protocol, "address": port.address}


def _term(term: PodTerm) -> dict[str, Any]:
    return {"key": term.key, "pods": _selector(term.pods)}


def _even(rule: EvenRule) -> dict[str, Any]:
    return {
        "key": rule.key,
        "pods": _selector(rule.pods),
        "skewMax": rule.skew_max,
        "domainsMin": rule.domains_min,
        "byAffinity": rule.by_affinity,
        "byTaints": rule.by_taints,
    }


def _selector(pods: PodSelector) -> dict[str, Any]:
    record: dict[str, Any] = {"namespaces": list(pods.namespaces)} if pods.namespaces else {}
    for name, requirements in (("requirements", pods.requirements), ("namespaceTerms", pods.namespace_terms)):
        if requirements is not None:
            record[name] = [
                {"key": each.key, "operator": each.operator, **({"values": list(each.values)} if each.values else {})}
                for each in requirements
            ]
    return record
