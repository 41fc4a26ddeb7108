"""One line of the log for each action that was applied, the same on every engine that does something real.

    job started job=default/mnist decision=d-3f9a01c2-17 workers=4 why=SpareRoom held=done took_ms=12

Applied means that the engine has written down what the job is to hold from now on; processes or pods follow.
"""

import logging

from sterna.lifecycle.gang_roles import size_of
from sterna.model.jobs import Worker
from sterna.model.plan import Grow, Outcome

log = logging.getLogger(__name__)


def log_outcome(outcome: Outcome, *, before: tuple[Worker, ...], decision_id: str, took_s: float) -> None:
    """`before`: what the job held as the decision saw it."""
    action = outcome.action
    keys = {
        "job": action.job_id,
        "decision": decision_id,
        "workers": size_of(action.to),
        "why": str(action.because.why),
        "held": outcome.held.value,
        "took_ms": round(took_s * 1000),
    }
    if not outcome.went_well:
        log.info("action not applied", extra={**keys, "problem": outcome.message})
    elif isinstance(action, Grow):
        log.info("job grown" if before else "job started", extra=keys)
    else:
        log.info("job shrunk" if action.to else "job stopped", extra=keys)
