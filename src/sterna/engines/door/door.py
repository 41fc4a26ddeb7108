"""The scheduler's door: what monitors and container-migration's users ask of it. Requests in, answers out; no sockets.

    POST /migrate       {"node": ..., "pod": ...}    move this worker away from this node; answers `Ok`
    GET  /cluster-info                               what nodes offer and what is left of it
    POST /reports       a batch of protocol.reports  how workers train; answers who took it

All need the installation's secret as a bearer token. Serving them is `serving.py`.
"""

import logging
from collections.abc import Callable, Sequence

from sterna.engines.door import answers
from sterna.engines.door.answers import INTERNAL, Answer, Problem, problem_of, unavailable
from sterna.engines.door.cluster_info import cluster_info
from sterna.engines.door.household import Household
from sterna.engines.door.moves import read_request, require_movable, target_of, the_one_meant
from sterna.model.errors import SternaError
from sterna.protocol import reports
from sterna.protocol.reports import BadReport, Batch
from sterna.protocol.tokens import owner_of

log = logging.getLogger(__name__)

PORT = 8769  # container-migration's
REQUEST_BYTES_MAX = 4096  # of a wish to move something; reports have limits of their own
REPORTS_BYTES_MAX = 1 << 20
OUTCOME = "sterna-outcome"  # header of an `Ok`: asked, duplicate or ignored


class Door:
    """`secrets` are the installation's, asked for each time, so that they can be replaced while it is open."""

    def __init__(self, household: Household, secrets: Callable[[], Sequence[str]]) -> None:
        self._household = household
        self._secrets = secrets

    async def answer(self, method: str, path: str, *, authorization: str | None, body: bytes = b"") -> Answer:
        """Never raises, whatever is asked."""
        try:
            self._require_known(authorization)
            return await self._route(method, path.partition("?")[0], body)
        except SternaError as error:
            return problem_of(error).answer
        except Exception:  # the boundary of a request: whoever asks for something odd must not end the scheduler
            log.exception("a request could not be answered", extra={"path": path[:80]})
            return INTERNAL.answer

    def _require_known(self, authorization: str | None) -> None:
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Problem(401, "unauthorised", "a bearer token is needed: the installation's secret")
        owners = [owner_of(token.strip(), secret) for secret in self._secrets()]  # all of them: none ends it sooner
        if not any(owner is not None and owner.is_installation for owner in owners):
            raise Problem(401, "unauthorised", "the token is not this installation's")

    async def _route(self, method: str, path: str, body: bytes) -> Answer:
        match method, path:
            case "POST", "/migrate":
                return await self._migrate(body)
            case "GET", "/cluster-info":
                return answers.as_json(cluster_info(self._household.snapshot(), self._household.limits()))
            case "POST", "/reports":
                return self._reports(body)
            case _, "/migrate" | "/reports" | "/cluster-info":
                raise Problem(405, "method", f"{path} is asked for by {'GET' if path == '/cluster-info' else 'POST'}")
        raise Problem(404, "not-found", "there are POST /migrate, GET /cluster-info and POST /reports")

    async def _migrate(self, body: bytes) -> Answer:
        household = self._household
        if len(body) > REQUEST_BYTES_MAX:
            raise Problem(413, "too-large", f"a request has at most {REQUEST_BYTES_MAX} bytes")
        request = read_request(body)
        self._require_presence()
        view = household.snapshot()
        if request.node not in view.cluster.by_id:
            raise Problem(404, "not-found", f"there is no node {request.node}")
        pod = the_one_meant(request, household.find(request.pod, namespace=request.namespace))
        if pod.asked and not pod.finished:
            return answers.plain("Ok", **{OUTCOME: "duplicate"})
        require_movable(pod, household.now_s())
        to = target_of(view, pod, household.limits())
        if to is None:
            return answers.plain("Ok", **{OUTCOME: "ignored"})
        is_new = await household.ask(pod, to)
        if is_new:
            log.info("a move was asked for", extra={"job": pod.job_id, "pod": pod.name, "to": to})
        return answers.plain("Ok", **{OUTCOME: "asked" if is_new else "duplicate"})

    def _reports(self, body: bytes) -> Answer:
        household = self._household
        if len(body) > REPORTS_BYTES_MAX:
            raise Problem(413, "too-large", f"a batch has at most {REPORTS_BYTES_MAX} bytes")
        try:
            batch = Batch.from_json(body)
        except BadReport as error:
            raise Problem(400, "invalid-request", str(error), field=error.field, expected=error.expected) from None
        self._require_presence()
        # Meant for another instance: once the monitor reads whom it speaks to it sends all that it has, oldest first.
        is_for_us = batch.instance in ("", household.instance)
        taken = household.take_reports(batch) if is_for_us else 0
        said = reports.Answer(household.instance, len(batch.reports) - taken, household.follow(batch.node))
        return Answer(200, said.to_json(), "application/json", {"cache-control": "no-store"})

    def _require_presence(self) -> None:
        if why := self._household.absence():
            raise unavailable(why)
