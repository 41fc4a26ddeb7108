"""The monitor's door: what training processes send, checked and put into the windows.

Whose token it is comes first, then whether the body is a report, then whether the pod is theirs. Whatever is wrong is
answered with a 4xx that says what, and changes nothing.
"""

import json
from collections.abc import Callable
from typing import Any

from sterna.httpd import Handler, Reply, Request, json_reply, problem
from sterna.monitor.trainer_status import trainer_report, trainjob_of
from sterna.monitor.windows import Windows
from sterna.protocol.reports import (
    REPORTS_MAX,
    SEQ_SENT_MAX,
    BadReport,
    Report,
    is_of_job,
    json_object,
    next_seq,
    report_of,
)
from sterna.protocol.tokens import Gate, TokenOwner, is_like_job_token, token_in

AHEAD_S_MAX = 300.0  # how far a worker's clock may be before ours, which is the same clock on the same node

_OK = Reply(b"Ok")
_UNKNOWN = problem(401, "a bearer token of a job of this installation is needed")._replace(
    headers={"WWW-Authenticate": "Bearer"}
)


class Refused(Exception):
    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        super().__init__(reply.status)


class Intake:
    """`knows` tells whether a pod is on this node; `took` is called after every request that left something;
    `may_be_known` tells whether a job's token that the gate does not know may be known in a moment.
    """

    def __init__(
        self,
        windows: Windows,
        gate: Gate,
        *,
        wall: Callable[[], float],
        clock: Callable[[], float],
        knows: Callable[[str], bool],
        took: Callable[[], None],
        ready: Callable[[], str | None],
        may_be_known: Callable[[], bool] = lambda: False,
    ) -> None:
        self._windows = windows
        self._gate = gate
        self._wall = wall
        self._clock = clock
        self._knows = knows
        self._took = took
        self._ready = ready
        self._may_be_known = may_be_known

    def routes(self) -> dict[tuple[str, str], Handler]:
        return {
            ("POST", "/monitor"): self._guarded(self._monitor),
            ("POST", "/reports"): self._guarded(self._reports),
            ("GET", "/workers"): self._guarded(self._workers),
        }

    def probes(self) -> dict[tuple[str, str], Handler]:
        """For a port of their own, which needs no token."""
        return {("GET", "/healthz"): lambda _: _OK, ("GET", "/readyz"): self._readyz}

    def admit(self, request: Request) -> Reply | None:
        """Asked before a body is read: a request without a token of this installation costs no more than a head."""
        return None if self._owner(request) is not None else self._stranger(request)

    def fallback(self, request: Request) -> Reply:
        """Paths with a name in them."""
        job = trainjob_of(request.path)
        if job is None:
            return problem(404, "there is nothing here")
        if request.method != "POST":
            return problem(405, f"{request.path} takes POST")._replace(headers={"Allow": "POST"})
        return self._guarded(lambda request, owner: self._trainer_status(request, owner, job))(request)

    # -- what is asked ------------------------------------------------------------------------------------------------

    def _monitor(self, request: Request, owner: TokenOwner) -> Reply:
        """container-migration's: {pod, value}, answered Ok."""
        body = json_object(request.body)
        if body.get("value") is None:
            raise BadReport("value", None, "a finite number")
        self._take_one(body, owner)
        return _OK

    def _reports(self, request: Request, owner: TokenOwner) -> Reply:
        """One report, or {"reports": [...]}. Of several each is judged by itself: those seen before are passed over,
        and those that are none are named with their places. Where nothing is left, the first refusal is the answer.
        """
        body = json_object(request.body)
        rows = body.get("reports")
        if rows is None:
            self._take_one(body, owner)
            return json_reply({"accepted": 1, "passed_over": 0, "last_seq": 0})
        if not isinstance(rows, list) or len(rows) > REPORTS_MAX:
            raise BadReport("reports", type(rows).__name__, f"a list of at most {REPORTS_MAX} reports")
        refused: list[tuple[int, Reply]] = []
        passed_over: list[Report] = []
        for place, row in enumerate(rows):
            try:
                report = self._checked(row, owner, f"reports[{place}].")
            except (BadReport, Refused) as error:
                refused.append((place, _refusal_of(error)))
                continue
            if not self._windows.take(report, self._clock()):
                passed_over.append(report)
        if rows and len(refused) == len(rows):
            return refused[0][1]
        self._took()
        last_seq = max((self._windows.last_seq(report.pod, report.job_uid) for report in passed_over), default=0)
        taken = len(rows) - len(passed_over) - len(refused)
        verdicts = [{"place": place, **json.loads(reply.body)} for place, reply in refused]
        said = {"accepted": taken, "passed_over": len(passed_over), "last_seq": last_seq}
        return json_reply({**said, **({"refused": verdicts} if verdicts else {})})

    def _trainer_status(self, request: Request, owner: TokenOwner, job: str) -> Reply:
        """Kubeflow Trainer's: about a job as a whole."""
        report = trainer_report(json_object(request.body), job=job, now_s=self._wall())
        self._windows.take(self._of_owner(report, owner, unnumbered=True), self._clock())
        self._took()
        return json_reply({})

    def _workers(self, request: Request, owner: TokenOwner) -> Reply:
        now_s = self._clock()
        rows = [
            {
                "pod": pod,
                "job_uid": uid,
                "silent": record.silent,
                "heard_s_ago": round(now_s - record.heard_s, 3) if record.last_seq else None,
                "reports": len(record.window),
                "unsent": record.unsent,
                "refused": record.refused,
                "refusal": record.refusal,
                "last": record.evaluation.to_body() if record.evaluation is not None else None,
                "usage": record.usage.to_body()["usage"] if record.usage is not None else None,
            }
            for (pod, uid), record in self._windows.items()
            if owner.is_installation or (_is_of(pod, owner) and uid in ("", owner.uid))
        ]
        lost, refused = (self._windows.lost, self._windows.refused) if owner.is_installation else (None, None)
        return json_reply({"workers": rows, "lost": lost, "refused": refused})

    def _readyz(self, request: Request) -> Reply:
        missing = self._ready()
        return _OK if missing is None else problem(503, missing)

    # -- checking -----------------------------------------------------------------------------------------------------

    def _guarded(self, handler: Callable[[Request, TokenOwner], Reply]) -> Callable[[Request], Reply]:
        def guarded(request: Request) -> Reply:
            owner = self._owner(request)
            if owner is None:  # its secret was replaced while the body came
                return self._stranger(request)
            try:
                return handler(request, owner)
            except (BadReport, Refused) as error:
                return _refusal_of(error)

        return guarded

    def _owner(self, request: Request) -> TokenOwner | None:
        """A node's token is for the scheduler, not for monitors."""
        owner = self._gate.owner_of(request.headers.get(b"authorization"))
        return None if owner is None or owner.node else owner

    def _stranger(self, request: Request) -> Reply:
        token = token_in(request.headers.get(b"authorization", b"").decode("latin-1"))
        if is_like_job_token(token) and self._may_be_known():
            refusal = problem(503, "the scheduler has not said yet whose token this is; send it again")
            return refusal._replace(headers={"Retry-After": "1"})
        return _UNKNOWN

    def _take_one(self, body: dict[str, Any], owner: TokenOwner) -> None:
        report = self._checked(body, owner, "")
        if not self._windows.take(report, self._clock()):
            last = self._windows.last_seq(report.pod, report.job_uid)
            detail = f"report {report.seq} of {report.pod} was seen before; expected a seq above {last}"
            raise Refused(problem(409, detail, field="seq", last_seq=last))
        self._took()

    def _checked(self, body: object, owner: TokenOwner, where: str) -> Report:
        now_s = self._wall()
        report = report_of(body, where=where, now_s=now_s)
        if report.at_s > now_s + AHEAD_S_MAX:
            raise BadReport(f"{where}at_s", report.at_s, f"a time at most {AHEAD_S_MAX:g} s ahead")
        if not 0 < report.seq <= SEQ_SENT_MAX:  # 0 is for what the monitor itself measures
            raise BadReport(f"{where}seq", report.seq, f"a whole number from 1 to {SEQ_SENT_MAX}")
        assert isinstance(body, dict)
        return self._of_owner(report, owner, unnumbered="seq" not in body)

    def _of_owner(self, report: Report, owner: TokenOwner, *, unnumbered: bool) -> Report:
        """With its namespace, and the uid that the token proves; what is measured is not a worker's to say."""
        namespace, slash, name = report.pod.rpartition("/")
        if owner.is_installation:
            if not slash:
                raise BadReport("pod", report.pod, "namespace/name, since this token is of no namespace")
            pod, uid = report.pod, report.job_uid
        else:
            pod, uid = f"{owner.namespace}/{name}", owner.uid
            if (slash and namespace != owner.namespace) or not is_of_job(name, owner.job):
                raise Refused(problem(403, f"{report.pod} is not a pod of {owner.job_id}", field="pod"))
        if (pod, uid) not in self._windows and not self._knows(pod):
            raise Refused(problem(404, f"there is no pod {pod} on this node", field="pod"))
        seq = next_seq(report.at_s, self._windows.last_seq(pod, uid)) if unnumbered else report.seq
        return report._replace(pod=pod, seq=seq, job_uid=uid, usage=None)


def _refusal_of(error: BadReport | Refused) -> Reply:
    if isinstance(error, Refused):
        return error.reply
    status = 400 if error.field == "body" else 422  # not JSON at all, or JSON that says something else
    return problem(status, str(error), field=error.field)


def _is_of(pod: str, owner: TokenOwner) -> bool:
    namespace, _, name = pod.rpartition("/")
    return namespace == owner.namespace and is_of_job(name, owner.job)
