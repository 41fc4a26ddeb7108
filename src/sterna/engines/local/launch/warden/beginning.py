"""Start the warden of a home: one short-lived command that returns once a warden listens there, or says why none does.

It is safe to run any number at once: the warden that takes the lock wins, the others see it listening and return.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import NamedTuple

from sterna.engines.local.launch.warden import wire
from sterna.model.errors import EngineUnavailable

BEGIN_S = 25.0  # a dead predecessor's processes are killed first, which may take a while


class Settings(NamedTuple):
    idle_s: float = 60.0  # how long a warden with nothing to do and nobody listening stays
    cgroups: str = "auto"  # or `none`, or the path of a control group handed to this user


async def begin(home: Path, settings: Settings) -> None:
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        for directory in (home, home / wire.DIRECTORY_NAME):
            directory.mkdir(mode=0o700, exist_ok=True)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-I", "-S", "-X", "utf8"),  # no site-packages, nothing from the environment: it starts fast, stays small
            str(Path(__file__).with_name("__main__.py")),
            str(home.absolute()),
            json.dumps(settings._asdict()),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            cwd="/",
            env={"PATH": os.environ.get("PATH", os.defpath)},
        )
    except OSError as error:
        raise EngineUnavailable(f"the warden of {home} cannot be started: {error}", retry_after_s=5.0) from error
    try:
        async with asyncio.timeout(BEGIN_S):
            _, said = await process.communicate()
    except TimeoutError as error:
        process.kill()
        raise EngineUnavailable(f"the warden of {home} did not start in {BEGIN_S:g} s", retry_after_s=5.0) from error
    if process.returncode != 0:
        why = said.decode(errors="replace").strip()[-2000:] or f"exit code {process.returncode}"
        raise EngineUnavailable(f"the warden of {home} did not start: {why}", retry_after_s=5.0)
