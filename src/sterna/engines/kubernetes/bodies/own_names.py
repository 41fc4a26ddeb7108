"""What a job's pods, services and config map are called: as it follows from the job's name, or otherwise where that
name is taken by something that is not the job's. Pure.

Other names are the same with five letters behind them, which follow from the job's uid: looking again gives the same
one. A service that is there keeps its name, since the addresses that its peers were given have it.
"""

import hashlib
import re
import string
from collections.abc import Callable, Iterator
from itertools import chain

from sterna.engines.contracts.naming import worker_name
from sterna.engines.kubernetes.process.settings import OWN_CONFIG_MAPS
from sterna.engines.kubernetes.reconcile.job_view import JobView
from sterna.lifecycle.gang_roles import Place
from sterna.model.workload import Workload

_NAME_MAX = 63  # of a pod and its service, by DNS
_OTHERS = 4  # names that are tried beside the usual one
_LETTERS = 5
_SUFFIX = re.compile(rf"-[a-z]{{{_LETTERS}}}$")


def place_of(workload: Workload, name: str) -> Place | None:
    """The place whose pod or service has this name. None: there is none."""
    head, _, number = _SUFFIX.sub("", name).rpartition("-")
    if not (number.isascii() and number.isdecimal() and len(number) <= 6 and str(int(number)) == number):
        return None
    for template in workload.roles:
        if head == f"{workload.name}-{template.word}":
            return template.role, int(number)
    return None


def free_name(usual: str, uid: str, is_taken: Callable[[str], bool]) -> str:
    """The usual name, or the first other one that is not taken; the usual one if all are."""
    return next((name for name in chain([usual], _others(usual, uid)) if not is_taken(name)), usual)


def service_names(view: JobView, workload: Workload) -> Callable[[Place], str]:
    """What the service of a place is called, be it there already or not."""
    there = {place_of(workload, found.metadata.name): found.metadata.name for found in view.services}

    def name_of(place: Place) -> str:
        if (name := there.get(place)) is not None:
            return name
        return free_name(worker_name(workload, *place), view.uid, lambda name: ("Service", name) in view.taken)

    return name_of


def usual_config_name(job: str) -> str:
    return f"{job}-config"


def config_names(job: str, uid: str) -> tuple[str, ...]:
    """Names that the config map of a job may have, the usual one first. None is one that the operator's own have."""
    usual = usual_config_name(job)
    return tuple(name for name in chain([usual], _others(usual, uid, max_length=253)) if name not in OWN_CONFIG_MAPS)


def config_name(view: JobView) -> str:
    if view.config_map is not None:
        return view.config_map.metadata.name
    names = config_names(view.name, view.uid)
    return next((name for name in names if ("ConfigMap", name) not in view.taken), names[0])


def _others(usual: str, uid: str, *, max_length: int = _NAME_MAX) -> Iterator[str]:
    if len(usual) + 1 + _LETTERS > max_length:
        return
    for attempt in range(_OTHERS):
        digest = hashlib.sha256(f"{uid}/{usual}/{attempt}".encode()).digest()
        yield f"{usual}-" + "".join(string.ascii_lowercase[byte % 26] for byte in digest[:_LETTERS])
