"""`sterna monitor` as a process: from a token file and a scheduler's address until a signal says stop."""

import asyncio
import logging
import signal
from pathlib import Path
from urllib.parse import urlsplit

from sterna.model.errors import InvalidRequest
from sterna.monitor.forwarding import by_http
from sterna.monitor.matching import fault_of
from sterna.monitor.monitor import Monitor, Settings
from sterna.monitor.surroundings import Pattern
from sterna.protocol.tokens import SECRET_BYTES_MIN, TokenFile

log = logging.getLogger(__name__)

DOOR_PORT = 8769


async def run_monitor(settings: Settings, *, scheduler: str, token_file: Path) -> None:
    """Until SIGTERM or SIGINT. Raises InvalidRequest, and OSError when the port is taken."""
    url = scheduler_url(scheduler)
    tokens = TokenFile(token_file)
    if tokens.first() is None:  # a secret that is mounted late is no reason to give up: not ready until it is there
        log.warning("token file is empty or cannot be read", extra={"path": str(token_file)})
    elif short := [line for line in tokens.lines() if len(line) < SECRET_BYTES_MIN]:
        raise InvalidRequest(
            field="--token-file",
            value=f"{token_file} with a token of {len(short[0])} characters",
            expected=f"at least {SECRET_BYTES_MIN}",
        )
    monitor = Monitor(settings, secrets=tokens.lines, deliver=by_http(url, tokens.first), is_told=True)
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, told.set)
    await monitor.start()
    try:
        await told.wait()
        log.info("monitor stops")
    finally:
        await monitor.stop()


def scheduler_url(text: str) -> str:
    """A URL, or `host[:port]` as container-migration's SERVER_ENDPOINT has it. Raises InvalidRequest."""
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
        raise InvalidRequest(field="--scheduler", value=text, expected=f"a URL like http://sterna-door:{DOOR_PORT}")
    if port is None and "://" not in text:
        url = f"http://{parts.netloc}:{DOOR_PORT}{parts.path}"
    return url


def pattern_of(text: str) -> Pattern:
    """`REGEX`, or `PODS=REGEX` where PODS holds a slash: namespace/name, `*` for anything. Raises InvalidRequest."""
    pods, equals, expression = text.partition("=")
    if not (equals and "/" in pods and not set(pods) & set("()[]\\?^$ ")):
        pods, expression = "*", text
    fault = fault_of(expression)
    if fault is not None:
        raise InvalidRequest(field="--log-pattern", value=text, expected=f"another pattern: {fault}")
    return Pattern(pods, expression)
