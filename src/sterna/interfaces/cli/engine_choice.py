"""Which engine commands speak to: that of this machine, or a cluster. Said before or after the command, or once and for
all by STERNA_ENGINE; `kubectl sterna` means a cluster unless it is told otherwise.

Commands do not know: `asking.client_of` gives them a client of whichever was chosen.
"""

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from sterna.model.errors import InvalidRequest, SternaError

if TYPE_CHECKING:
    from sterna.interfaces.client import Client


class Engine(StrEnum):
    LOCAL = "local"
    KUBERNETES = "kubernetes"


class Choice(NamedTuple):
    engine: Engine
    kubeconfig: str | None = None  # None: KUBECONFIG, ~/.kube/config, or the pod we are in
    context: str | None = None  # None: the current one
    namespace: str | None = None  # None: that of the context, or default

    def default_namespace(self) -> str:
        if self.namespace is not None or self.engine is Engine.LOCAL:
            return self.namespace or "default"
        from sterna.interfaces.client.cluster import default_namespace

        return default_namespace(kubeconfig=self.kubeconfig, context=self.context)

    def client(self, home: str | None, *, deadline_s: float | None = None) -> "Client":
        """A client of what was chosen; of a cluster, one that `speaking` closes."""
        if self.engine is Engine.LOCAL:
            from sterna.interfaces.client import Client

            return Client(home) if deadline_s is None else Client(home, deadline_s=deadline_s)
        if home is not None:
            raise InvalidRequest(field="--home", value=home, expected="nothing: a cluster is asked (--engine local)")
        from sterna.interfaces.client.cluster import cluster_client

        client = cluster_client(
            kubeconfig=self.kubeconfig, context=self.context, namespace=self.namespace, deadline_s=deadline_s
        )
        _OPEN.get().append(client)
        return client


_SAID = "sterna.said."  # keys of a context's notes begin so
_CONTEXT: ContextVar[typer.Context | None] = ContextVar("context", default=None)
_OPEN: ContextVar[list["Client"]] = ContextVar("open", default=[])  # noqa: B039 - replaced by `speaking`


@contextmanager
def speaking(ctx: typer.Context) -> Iterator[None]:
    """While a command runs: what was chosen is known, and what it opens is closed."""
    context, opened = _CONTEXT.set(ctx), _OPEN.set([])
    try:
        yield
    finally:
        for client in _OPEN.get():
            client.close()
        _OPEN.reset(opened)
        _CONTEXT.reset(context)


def chosen(ctx: typer.Context | None = None) -> Choice:
    """What was said to this command, or to the one that runs now."""
    ctx = ctx or _CONTEXT.get()
    if ctx is None:
        return Choice(Engine.LOCAL)
    engine, *rest = (ctx.meta.get(_SAID + name) for name in Choice._fields)
    return Choice(engine or ctx.find_root().obj or _from_environment(), *rest)


def program(ctx: typer.Context | None = None) -> str:
    """As people type it: `sterna`, or `kubectl sterna`."""
    ctx = ctx or _CONTEXT.get()
    return "sterna" if ctx is None else str(ctx.find_root().info_name or "sterna").replace("-", " ")


def _from_environment() -> Engine:
    text = os.environ.get("STERNA_ENGINE") or Engine.LOCAL
    try:
        return Engine(text)
    except ValueError:
        raise InvalidRequest(field="STERNA_ENGINE", value=text, expected=" or ".join(Engine)) from None


def _note(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
    """Keeps what was said where completion finds it, too, and lets the choice decide which namespace is the default."""
    if value is not None:
        ctx.meta[_SAID + str(param.name).removesuffix("_")] = value
    if ctx.parent is not None:
        ctx.default_map = {**(ctx.default_map or {}), "namespace": lambda: _default_namespace(ctx)}
    return value


def _default_namespace(ctx: typer.Context) -> str | None:
    try:
        return chosen(ctx).default_namespace()
    except SternaError:
        if ctx.resilient_parsing:  # a shell completes: that something is wrong is told when the command is run
            return None
        raise


def _option(kind: Any, *names: str, help: str, metavar: str | None = None, hidden: bool = False) -> Any:  # noqa: A002
    told = typer.Option(*names, help=help, metavar=metavar, hidden=hidden, callback=_note, is_eager=True)
    return Annotated[kind, told]


def _options(*, hidden: bool) -> dict[str, Any]:
    return {
        "engine": _option(
            Engine | None,
            "--engine",
            help="Whom commands ask: the engine of this machine, or a cluster. Default: STERNA_ENGINE, else local.",
            hidden=hidden,
        ),
        "kubeconfig": _option(
            str | None,
            "--kubeconfig",
            metavar="FILE",
            help="How to reach the cluster. Default: KUBECONFIG, else ~/.kube/config.",
            hidden=hidden,
        ),
        "context": _option(
            str | None, "--context", metavar="NAME", help="Of the kubeconfig. Default: its current one.", hidden=hidden
        ),
        "namespace": _option(
            str | None,
            "--namespace",
            "-n",
            metavar="NAME",
            help="Of jobs that are named without one. Default: the context's on a cluster, else default.",
            hidden=hidden,
        ),
    }


EngineOption = _options(hidden=False)["engine"]
KubeconfigOption = _options(hidden=False)["kubeconfig"]
ContextOption = _options(hidden=False)["context"]
NamespaceOption = _options(hidden=False)["namespace"]

_LOCAL_ONLY = {
    "up": "on a cluster the operator is the engine; docs/install.md says how to install it",
    "down": "on a cluster the operator is the engine; `kubectl scale` stops it, and training goes on",
    "demo": "it plays on this machine",
}


def with_engine(command: Callable[..., None]) -> Callable[..., None]:
    """A command that takes the same options behind its name as `sterna` does before it, without showing them again."""
    own = list(inspect.signature(command).parameters.values())
    taken = {part.name for part in own}
    lent = [
        inspect.Parameter(f"{name}_", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in _options(hidden=True).items()
        if name not in taken
    ]

    @wraps(command)
    def wrapper(**values: Any) -> None:
        said = {part.name: values.pop(part.name) for part in lent}
        _require_sense(command.__name__, said.get("namespace_"))
        command(**values)

    parameters = [part.replace(kind=inspect.Parameter.KEYWORD_ONLY) for part in (*own, *lent)]
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {part.name: part.annotation for part in parameters}
    return wrapper


def _require_sense(command: str, namespace: str | None) -> None:
    engine = chosen().engine
    if engine is Engine.LOCAL and command in ("submit", "create") and namespace is not None:
        raise InvalidRequest(field="--namespace", value=namespace, expected="it in the manifest: metadata.namespace")
    if engine is Engine.KUBERNETES and command in _LOCAL_ONLY:
        expected = f"local for `sterna {command}`: {_LOCAL_ONLY[command]}"
        raise InvalidRequest(field="--engine", value=str(engine), expected=expected)
