"""What workers of a job are counted for, where that is not what the manifest says. Pure.

A cluster's admission may give pods more than their template asks for: defaults of a LimitRange, overhead of a runtime
class, whatever a webhook puts in. What is found is kept with the job, and only where it differs, so that a scheduler
that starts again counts the same, and users can read it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from sterna.model.jobs import JobSpec, Role
from sterna.model.pod_requests import beyond, smaller
from sterna.model.quantities import AMOUNT_MAX
from sterna.model.resources import WHOLE_GPU_MILLI, Resources

_EACH_MAX = AMOUNT_MAX // 100_000_000 * 1000  # whole cards, and no sum over a job overflows whatever a namespace says
_MOST = Resources(_EACH_MAX, _EACH_MAX, _EACH_MAX, _EACH_MAX)


class CountedRequest(NamedTuple):
    role: Role
    written: Resources  # as the manifest said when this was found: an edit that asks for something else ends it
    request: Resources  # of one worker: what is counted


Counted = tuple[CountedRequest, ...]


def counted_requests(written: Mapping[Role, Resources], found: Mapping[Role, Resources], known: Counted) -> Counted:
    """`written` says what the manifest asks for; `found` what is known now; `known` what was, and still is for roles
    of which nothing new was found."""
    earlier = {entry.role: entry.request for entry in known if entry.written == written.get(entry.role)}
    now = {
        role: _with_cards_of(asked, found[role]) if role in found else earlier.get(role, asked)
        for role, asked in written.items()
    }
    return tuple(CountedRequest(role, written[role], now[role]) for role in written if now[role] != written[role])


def counted_spec(spec: JobSpec, counted: Counted) -> JobSpec:
    """The spec as decisions see it. The same object: it is counted as written."""
    now = {
        entry.role: _with_cards_of(entry.written, entry.request)  # what is kept may have been edited by hand
        for entry in counted
        if entry.written == spec.request_of(entry.role)
    }
    if not now:
        return spec
    fixed = tuple(role._replace(request=now.get(role.role, role.request)) for role in spec.fixed)
    return replace(spec, request=now.get(Role.WORKER, spec.request), fixed=fixed)


def uncounted(taken: Resources, counted: Resources) -> Resources:
    """What a pod takes beyond what its job answers for."""
    return beyond(_with_cards_of(counted, taken), counted)


def _with_cards_of(asked: Resources, found: Resources) -> Resources:
    """A share of a card is said by annotations, of which the resources of a pod tell nothing."""
    shares = asked.shares_gpu or asked.gpu_bytes
    cards = asked.gpu_milli if shares else max(asked.gpu_milli, found.whole_gpus * WHOLE_GPU_MILLI)
    return smaller(found._replace(gpu_milli=cards, gpu_bytes=asked.gpu_bytes), _MOST)
