"""Which policy the operator decides by: the ConfigMap that users write and it reads, checked before it is written."""

from collections.abc import Mapping

from sterna.engines.kubernetes.apiserver.objects import ConfigMapObject
from sterna.engines.kubernetes.apiserver.port import CONFIG_MAPS, Api, Missing, Refused
from sterna.engines.kubernetes.process.settings import CONFIG, POLICY, OperatorConfig
from sterna.lifecycle.job_record import Record
from sterna.model.errors import NotFound


class PolicyConfig:
    def __init__(self, api: Api, *, namespace: str) -> None:
        self._api = api
        self._namespace = namespace  # the operator's

    async def name(self) -> str:
        """For tables. Empty: this user may not read it."""
        try:
            return (await self._data()).get("policy") or POLICY
        except Refused:
            return ""

    async def record(self) -> Record:
        return _record(await self._data())

    async def set(self, policy: str, settings: Mapping[str, str]) -> Record:
        """`placement`, `rateLimitSeconds`, `rebalance` and `rebalanceSettings` may stand among the settings. What makes
        no sense changes nothing.
        """
        from sterna.lifecycle.rule_names import settings_text

        own = dict(settings)
        place, rate = own.pop("placement", None), own.pop("rateLimitSeconds", None)
        moving: dict[str, str | None] = {key: own.pop(key) for key in ("rebalance", "rebalanceSettings") if key in own}
        if "rebalance" in moving:
            moving.setdefault("rebalanceSettings", None)  # others have other settings
        said: dict[str, str | None] = {"policy": policy, "settings": settings_text(own), "placement": place, **moving}
        if rate is not None:
            said["rateLimitSeconds"] = rate
        kept = {key: value for key, value in (await self._data()).items() if key not in said}
        data = {**kept, **{key: value for key, value in said.items() if value is not None}}
        record = _record(data)
        data["policy"] = said["policy"] = record["policy"]  # as it is called, however it was spelt
        try:
            await self._api.patch(CONFIG_MAPS, CONFIG, {"data": said}, namespace=self._namespace, shape=ConfigMapObject)
        except Missing:
            await self._create(data)
        return record

    async def _create(self, data: Mapping[str, str]) -> None:
        body = {"metadata": {"name": CONFIG, "namespace": self._namespace}, "data": dict(data)}
        try:
            await self._api.create(CONFIG_MAPS, body, namespace=self._namespace, shape=ConfigMapObject)
        except Missing:
            hint = "is Sterna installed? STERNA_OPERATOR_NAMESPACE says where, if it is not there"
            raise NotFound("namespace", self._namespace, hint=hint) from None

    async def _data(self) -> dict[str, str]:
        """Empty where the ConfigMap does not exist: then the operator goes by what it was started with."""
        try:
            found = await self._api.get(CONFIG_MAPS, CONFIG, namespace=self._namespace, shape=ConfigMapObject)
        except Missing:
            return {}
        return found.data or {}


def _record(data: Mapping[str, str]) -> Record:
    """`InvalidRequest` where the operator could not use it. Imported here: rules bring all policies along."""
    from sterna.engines.kubernetes.loop.rules import rules_of

    rules = rules_of(OperatorConfig(), data)
    return {
        "policy": rules.size.name,
        "settings": dict(rules.policy_settings),
        "placement": rules.placement,
        "rateLimitSeconds": rules.rate_limit_s,
        "rebalance": list(rules.rebalance),
        "rebalanceSettings": dict(rules.rebalance_settings),
    }
