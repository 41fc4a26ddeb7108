"""Seats whose pods the API server does not make: tried for a while, then given back. Pure.

Here is which pods were let in; how long a job tries and what it asks for afterwards is a rule of its life
(`lifecycle/admission_denials.py`).
"""

from dataclasses import replace
from typing import NamedTuple

from sterna.engines.kubernetes.bodies.mpi_hosts import has_config
from sterna.engines.kubernetes.bodies.own_names import service_names
from sterna.engines.kubernetes.reconcile import changes
from sterna.engines.kubernetes.reconcile.effects_due import found_by_name
from sterna.engines.kubernetes.reconcile.intentions import given_up
from sterna.engines.kubernetes.reconcile.seated_pods import Look
from sterna.engines.kubernetes.status.standing import Standing
from sterna.lifecycle import admission_denials as rules
from sterna.lifecycle.admission_denials import Answer, Denial
from sterna.lifecycle.counters import holding, restart_s
from sterna.lifecycle.gang_roles import Place, carriers, size_of
from sterna.lifecycle.lost_seats import who_goes_on
from sterna.model.jobs import JobSpec, Worker
from sterna.model.phases import Trigger, after


class Heeded(NamedTuple):
    standing: Standing  # the same object if nothing follows
    given_back: str = ""  # in words: how the job gave seats back. Empty: it did not


def heeded(look: Look, now_s: float, patience_s: float) -> Heeded:
    """The standing after what the API server answered when pods of the job were to be made."""
    standing, spec, hindrance = look.standing, look.view.spec, look.view.hindrance
    denial, said_no = standing.denial, hindrance is not None and hindrance.denied
    if spec is None:
        return Heeded(standing)
    if hindrance is not None and said_no and standing.seats:
        denial = rules.refused(denial, hindrance.message, now_s, generation=look.view.generation)
    if denial is None:
        return Heeded(standing)
    if look.view.answer is not None:
        return Heeded(_asked(look, denial, look.view.answer, now_s))
    if denial.tries:
        missing = _not_let_in(look)
        if not missing:
            denial = rules.let_in(denial)
        elif said_no and rules.is_due(denial, now_s, patience_s):
            return _given_back(look.but(replace(standing, denial=denial)), spec, denial, missing, now_s)
    return Heeded(standing if denial == standing.denial else replace(standing, denial=denial))


def _asked(look: Look, denial: Denial, answer: Answer, now_s: float) -> Standing:
    view, standing = look.view, look.standing
    if not rules.may_ask(denial, now_s, generation=view.generation):
        return standing  # it was asked about a job that has changed since
    denial = rules.asked(denial, answer, now_s, generation=view.generation, identity=view.uid)
    standing = replace(standing, denial=denial)
    if not denial.in_force or standing.reason != str(denial.because.why):
        return standing
    return replace(standing, message=denial.because.sentence, numbers=denial.because.numbers)


def keeps_from_training(look: Look) -> bool:
    """Are workers refused, now, without which those that were let in train nothing?"""
    denial, spec = look.standing.denial, look.view.spec
    if denial is None or not denial.tries or spec is None:
        return False
    missing = _not_let_in(look)
    return bool(missing) and not _who_goes_on(look, spec, missing)


def _not_let_in(look: Look) -> frozenset[Place]:
    """Places whose pods, or what those need, the API server does not have."""
    if look.seats and has_config(look.workload) and look.view.config_map is None:
        return frozenset(look.seats)
    named, name_of = found_by_name(look.workload, look.seats), service_names(look.view, look.workload)
    services = {found.metadata.name for found in look.view.services}
    return frozenset(
        place
        for place in look.seats
        if place not in look.done and (place not in look.current or (place in named and name_of(place) not in services))
    )


def _who_goes_on(look: Look, spec: JobSpec, missing: frozenset[Place]) -> tuple[Worker, ...]:
    held = look.standing.assigned
    lost = {worker for worker in held if worker[:2] in missing}
    return who_goes_on(spec, held, lost, needed=carriers(look.workload, held))


def _given_back(look: Look, spec: JobSpec, denial: Denial, missing: frozenset[Place], now_s: float) -> Heeded:
    standing, held = look.standing, look.standing.assigned
    kept, let_in = _who_goes_on(look, spec, missing), len(held) - len(missing)
    size = size_of(kept) or rules.size_let_in(spec, held=size_of(held), let_in=let_in)
    denial = rules.given_back(denial, now_s, size=size, identity=look.view.uid)
    values = holding(standing, spec, kept, now_s, restart_s=restart_s(standing.progress), comes_back=True)
    because = denial.because
    values |= {"reason": str(because.why), "message": because.sentence, "numbers": because.numbers}
    words = rules.in_words(denial, let_in=let_in, held=len(held), kept=size_of(kept))
    seats = tuple(seat for seat in standing.seats if seat.worker in kept)
    left = replace(standing, **values, seats=seats, denial=denial)
    change = standing.change
    if kept:
        if change is not None:
            left = changes.opened(left, before=(), to=kept, why=change.why, message=change.message, now_s=now_s)
        return Heeded(left, words)
    left = replace(left, phase=after(standing.phase, Trigger.RESIZED))
    if size and change is not None:  # it trained before, and goes on with what is let in
        return Heeded(left, words)
    return Heeded(given_up(look.view.but(left), because, now_s), words)
