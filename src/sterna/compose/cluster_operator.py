"""The Kubernetes engine from its settings to its end. Needs the extra `kubernetes`."""

import asyncio
import signal
from pathlib import Path
from typing import Any

from sterna.compose.decision_journals import SHAPES
from sterna.engines.kubernetes.apiserver.client import Limits, connect, discovered
from sterna.engines.kubernetes.apiserver.port import Api
from sterna.engines.kubernetes.process.operator import Operator
from sterna.engines.kubernetes.process.settings import OperatorConfig
from sterna.wire.manifests import read_migration, workload_of_object


async def run_operator(
    *, kubeconfig: Path | None = None, context: str | None = None, namespace: str | None = None, **settings: Any
) -> None:
    """Until SIGTERM or SIGINT. `settings` are those of `OperatorConfig`; None: its default.

    `namespace` None: that of the kubeconfig or of the pod we run in.
    """
    found = discovered(kubeconfig=kubeconfig, context=context)
    said = {name: value for name, value in settings.items() if value is not None}
    config = OperatorConfig(namespace=namespace or found.namespace, **said)
    async with connect(found, limits=Limits(in_flight=config.in_flight)) as api:
        operator = operator_of(config, api)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, operator.stop)
        try:
            await operator.run()
        except BaseExceptionGroup as group:  # whichever part failed, the others were ended; jobs run on
            raise group.exceptions[0] from None


def operator_of(config: OperatorConfig, api: Api) -> Operator:
    return Operator(config, api, parse=workload_of_object, read_migration=read_migration, shapes=SHAPES)
