"""What `sterna monitor` becomes once it knows what is wanted: a process without the machinery that reads command lines.

That machinery would be most of the memory of a process that runs on every node, so the command replaces itself by
this module (`exec`: same process id, same standard error), and hands over what it read as one JSON argument.
"""

import asyncio
import json
import os
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from sterna.connections import limits_from
from sterna.interfaces.cli.daemon_log import LogForm, log_to_stderr
from sterna.model.errors import SternaError
from sterna.monitor import Pattern, Settings
from sterna.monitor.running import run_monitor

_PATHS = ("cgroup_root", "proc_root", "log_root", "epochs_dir")
_EXIT_MISUSED = 2


class Wanted(NamedTuple):
    settings: Settings
    scheduler: str
    token_file: str
    log_level: str
    log_form: LogForm

    def to_json(self) -> str:
        settings = {name: value for name, value in asdict(self.settings).items() if name != "limits"}
        return json.dumps({**self._asdict(), "settings": settings}, default=os.fspath)

    @classmethod
    def from_json(cls, text: str) -> "Wanted":
        body: dict[str, Any] = json.loads(text)
        settings = body.pop("settings")
        for name in _PATHS:
            settings[name] = None if settings[name] is None else Path(settings[name])
        settings["patterns"] = tuple(Pattern(*pattern) for pattern in settings["patterns"])
        return cls(**{**body, "settings": Settings(**settings), "log_form": LogForm(body["log_form"])})


def become(wanted: Wanted) -> NoReturn:
    """Replace this process by the small one."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-P", "-m", __name__, wanted.to_json()])


def main() -> int:
    wanted = Wanted.from_json(sys.argv[1])
    log_to_stderr(wanted.log_level, wanted.log_form)
    try:
        settings = replace(wanted.settings, limits=limits_from(os.environ))
        asyncio.run(run_monitor(settings, scheduler=wanted.scheduler, token_file=Path(wanted.token_file)))
    except (SternaError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return _EXIT_MISUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
