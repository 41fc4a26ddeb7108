"""The scheduler's door: what monitors and container-migration's users ask of it. Requests in, answers out; no sockets.

    POST /migrate       {"node": ..., "pod": ...}    move this worker away from this node; answers `Ok`
    GET  /cluster-info                               what nodes offer and what is left of it
    POST /reports       a batch of protocol.reports  how workers train; answers which instance took it

All need a bearer token: the installation's secret, or for reports that of the node's monitor, which speaks for its own
node and may do nothing else. Serving them is `serving.py`.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence

from sterna.engines.door import answers
from sterna.engines.door.answers import INTERNAL, Answer, Problem, problem_of, shown, unavailable
from sterna.engines.door.cluster_info import cluster_info
from sterna.engines.door.household import Household, Taken
from sterna.engines.door.worker_moves import read_request, require_movable, target_of, the_one_meant
from sterna.model.errors import SternaError
from sterna.protocol import reports
from sterna.protocol.reports import BadReport, Batch
from sterna.protocol.tokens import (
    SECRET_BYTES_MIN,
    TokenOwner,
    digest_of,
    job_token,
    owner_of,
    token_in,
)

log = logging.getLogger(__name__)

PORT = 8769  # container-migration's
REQUEST_BYTES_MAX = 4096  # of a wish to move something; reports have limits of their own
REPORTS_BYTES_MAX = 1 << 20
OUTCOME = "sterna-outcome"  # header of an `Ok`: asked, duplicate or ignored

Vouch = Callable[[str], Awaitable[str | None]]


class Door:
    """`secrets` are the installation's, asked for each time, so that they can be replaced while it is open.

    `vouch` says on which node the monitor is whose token this is, where monitors do not get their tokens from us;
    None: it is no monitor's.
    """

    def __init__(
        self, household: Household, secrets: Callable[[], Sequence[str]], *, vouch: Vouch | None = None
    ) -> None:
        self._household = household
        self._secrets = secrets
        self._vouch = vouch

    async def answer(self, method: str, path: str, *, authorization: str | None, body: bytes = b"") -> Answer:
        """Never raises, whatever is asked."""
        try:
            caller = await self._caller(token_in(authorization or ""))
            return await self._route(caller, method, path.partition("?")[0], body)
        except SternaError as error:
            return problem_of(error).answer
        except Exception:  # the boundary of a request: an odd one must not end the scheduler
            log.exception("a request could not be answered", extra={"path": path[:80]})
            return INTERNAL.answer

    async def objection(self, authorization: str | None) -> Answer | None:
        """The answer to a caller that may not come in, before anything else of its request is read. None: it may."""
        try:
            await self._caller(token_in(authorization or ""))
        except SternaError as error:
            return problem_of(error).answer
        return None

    async def _caller(self, token: str) -> TokenOwner:
        """The installation, or a node. `Problem` 401: neither."""
        if not token:
            raise Problem(401, "unauthorised", "a bearer token is needed: the installation's secret, or a monitor's")
        owners = [owner_of(token, secret) for secret in self._secrets()]  # all of them: none ends it sooner
        known = next((owner for owner in owners if owner is not None and not owner.job), None)
        if known is None and self._vouch is not None and (node := await self._vouch(token)):
            known = TokenOwner(node=node)
        if known is None:
            raise Problem(401, "unauthorised", "the token is not this installation's")
        return known

    async def _route(self, caller: TokenOwner, method: str, path: str, body: bytes) -> Answer:
        if caller.node and path != "/reports":
            raise Problem(403, "forbidden", f"the monitor of {caller.node} may report what happens there, and no more")
        match method, path:
            case "POST", "/migrate":
                return await self._migrate(body)
            case "GET", "/cluster-info":
                return answers.as_json(cluster_info(self._household.snapshot(), self._household.limits()))
            case "POST", "/reports":
                return self._reports(body, caller)
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

    def _reports(self, body: bytes, caller: TokenOwner) -> Answer:
        household = self._household
        if len(body) > REPORTS_BYTES_MAX:
            raise Problem(413, "too-large", f"a batch has at most {REPORTS_BYTES_MAX} bytes")
        try:
            batch = Batch.from_json(body)
        except BadReport as error:
            raise Problem(400, "invalid-request", str(error), field=error.field, expected=error.expected) from None
        if caller.node and batch.node != caller.node:
            detail = f"node: {shown(batch.node)}; the monitor of {caller.node} speaks for that node alone"
            raise Problem(403, "forbidden", detail, field="node", expected=caller.node)
        self._require_presence()
        # Meant for another instance: once the monitor reads which one answers it sends all that it has, oldest first.
        is_for_us = batch.instance in ("", household.instance)
        taken = household.take_reports(batch, only_here=bool(caller.node)) if is_for_us else Taken(0)
        refused = {refusal.place: refusal.why for refusal in batch.refused} if is_for_us else {}
        for place, _, why in taken.refused:
            refused[batch.places[place] if batch.places else place] = why
        passed_over = len(batch.reports) - taken.new - len(taken.refused)
        tokens = self._tokens(batch.node) if batch.asks_tokens else None
        said = reports.Answer(household.instance, passed_over, household.follow(batch.node), refused, tokens)
        return Answer(200, said.to_json(), "application/json", {"cache-control": "no-store"})

    def _tokens(self, node: str) -> dict[str, str]:
        """What the monitor of this node knows the tokens of its jobs by: by digest, namespace/name/uid."""
        secrets = [secret for secret in self._secrets() if len(secret) >= SECRET_BYTES_MIN]
        return {
            digest_of(job_token(secret, namespace=job.namespace, job=job.job, uid=job.uid)): "/".join(job[:3])
            for job in self._household.tenants(node)
            for secret in secrets
        }

    def _require_presence(self) -> None:
        if why := self._household.absence():
            raise unavailable(why)
