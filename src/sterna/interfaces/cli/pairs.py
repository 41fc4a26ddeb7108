"""Many simulations at once, each a policy on a trace, in processes of their own.

Processes are spawned rather than forked, so that this works alike wherever Python does; only what reports need comes
back from them.
"""

import signal
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import NamedTuple

from sterna.interfaces.cli.choices import PolicyChoice
from sterna.interfaces.cli.options import RunOptions
from sterna.interfaces.cli.request_from_options import simulation_request
from sterna.interfaces.cli.terminal import OnProgress
from sterna.interfaces.reports.run_finding import Finding, finding
from sterna.model.errors import InvalidRequest


class Pair(NamedTuple):
    policy: PolicyChoice
    trace: str
    run: RunOptions


def run_pairs(pairs: Sequence[Pair], *, at_a_time: int, on_progress: OnProgress) -> list[Finding]:
    """What was found for each pair, in the order of the pairs, however they finish."""
    if min(at_a_time, len(pairs)) <= 1:
        return _one_after_another(pairs, on_progress)
    workers = min(at_a_time, len(pairs))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_die_quietly) as pool:
        futures = [pool.submit(_run_apart, pair) for pair in pairs]
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                _found(future.result())  # the first failure ends the whole comparison
                on_progress(done, len(pairs))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [_found(future.result()) for future in futures]


def run_pair(pair: Pair) -> Finding:
    from sterna.compose.simulation import run_simulation

    begun_s = time.monotonic()
    outcome = run_simulation(simulation_request(pair.policy, pair.run, trace=pair.trace))
    return finding(
        outcome.result,
        name=pair.policy.label,
        options=pair.policy.options_used(),
        problems=tuple(problem.sentence for problem in outcome.problems),
        took_s=time.monotonic() - begun_s,
    )


class _Refusal(NamedTuple):
    """An `InvalidRequest` on its way from one process to another, which exceptions with named arguments cannot go."""

    field: str
    value: str
    expected: str


def _run_apart(pair: Pair) -> Finding | _Refusal:
    try:
        return run_pair(pair)
    except InvalidRequest as error:
        return _Refusal(error.field, str(error.value), error.expected)


def _found(answer: Finding | _Refusal) -> Finding:
    if isinstance(answer, _Refusal):
        raise InvalidRequest(field=answer.field, value=answer.value, expected=answer.expected)
    return answer


def _one_after_another(pairs: Sequence[Pair], on_progress: OnProgress) -> list[Finding]:
    findings = []
    for done, pair in enumerate(pairs, start=1):
        findings.append(run_pair(pair))
        on_progress(done, len(pairs))
    return findings


def _die_quietly() -> None:
    """Ctrl-C reaches these processes too; the process that started them reports it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
