"""The warden: parent of every training process of one `STERNA_HOME`, and the engine's way to talk to it.

A process of its own session, single-threaded and of the standard library alone, that outlives the engine: it starts
process groups, pipes their output to rotated files, keeps TERM - grace - KILL deadlines, records every exit on disk
before telling it, holds ports, and takes everything with it when it dies. The engine uses three names:

    client = await connect_or_start(home, on_exit=..., on_lost=...)
    state = await client.start(Launch(id="mnist-worker-0-abcde", argv=..., env=..., cwd=..., log_path=...))
    await client.stop(state.id, grace_s=30)

The names below are loaded when first asked for: the warden itself runs inside this package and needs no asyncio.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sterna.engines.local.launch.warden.client import WardenClient as WardenClient
    from sterna.engines.local.launch.warden.client import connect_or_start as connect_or_start
    from sterna.engines.local.launch.warden.values import Census as Census
    from sterna.engines.local.launch.warden.values import Exited as Exited
    from sterna.engines.local.launch.warden.values import Hook as Hook
    from sterna.engines.local.launch.warden.values import HookEnded as HookEnded
    from sterna.engines.local.launch.warden.values import Launch as Launch
    from sterna.engines.local.launch.warden.values import Limit as Limit
    from sterna.engines.local.launch.warden.values import Limits as Limits
    from sterna.engines.local.launch.warden.values import Phase as Phase
    from sterna.engines.local.launch.warden.values import ProcessState as ProcessState

_HOME_OF = dict.fromkeys(("WardenClient", "connect_or_start"), "client") | dict.fromkeys(
    ("Census", "Exited", "Hook", "HookEnded", "Launch", "Limit", "Limits", "Phase", "ProcessState"), "values"
)


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
