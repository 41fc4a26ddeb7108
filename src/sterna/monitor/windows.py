"""What the monitor remembers of each pod: the latest reports, what was sent on, and when it was last heard.

Plain memory with bounds and no clock of its own. A pod that falls silent loses its window, and keeps the last
evaluation and the number of its last report: a program that evaluates once in ten minutes is slow, not new.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from itertools import islice, takewhile

from sterna.protocol.reports import REPORTS_MAX, Report

WINDOW = 64  # reports of one pod
PODS_MAX = 1024


class Record:
    """One pod."""

    __slots__ = ("evaluation", "heard_s", "job_uid", "last_seq", "pending", "silent", "usage", "usage_sent", "window")

    def __init__(self, window: int, job_uid: str, now_s: float) -> None:
        self.job_uid = job_uid
        self.window: deque[Report] = deque(maxlen=window)
        self.evaluation: Report | None = None  # the latest that has a value
        self.last_seq = 0
        self.pending = 0  # so many at the end of the window are unsent
        self.usage: Report | None = None
        self.usage_sent = True
        self.heard_s = now_s
        self.silent = False

    @property
    def unsent(self) -> int:
        return self.pending + (not self.usage_sent)

    def to_send(self) -> Iterator[Report]:
        yield from islice(self.window, len(self.window) - self.pending, None)
        if self.usage is not None and not self.usage_sent:
            yield self.usage

    def sent(self, seq: int) -> None:
        """Up to this number."""
        self.pending = sum(1 for _ in takewhile(lambda report: report.seq > seq, reversed(self.window)))


class Windows:
    def __init__(self, *, window: int = WINDOW, pods_max: int = PODS_MAX) -> None:
        self._window = window
        self._pods_max = pods_max
        self._records: OrderedDict[str, Record] = OrderedDict()  # longest unheard first
        self._dirty: dict[str, None] = {}  # pods with something unsent, in the order in which they got it
        self.waiting = 0  # reports taken since the last batch was put together: a measure of haste, not of size
        self.lost = 0  # fell out of a full window before they were sent

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, pod: str) -> bool:
        return pod in self._records

    def items(self) -> Iterable[tuple[str, Record]]:
        return self._records.items()

    def last_seq(self, pod: str) -> int:
        record = self._records.get(pod)
        return 0 if record is None else record.last_seq

    def take(self, report: Report, now_s: float) -> bool:
        """Remember it. False: its number was seen before."""
        record = self._records.get(report.pod)
        if record is None or (report.job_uid and record.job_uid and report.job_uid != record.job_uid):
            record = self._new(report, now_s)  # another job under the same name starts with nothing
        elif report.seq <= record.last_seq:
            return False
        self._heard(report, record, now_s)
        record.last_seq = report.seq
        window = record.window
        if record.pending == window.maxlen:
            self.lost += 1
        else:
            record.pending += 1
        window.append(report)
        if report.value is not None:
            record.evaluation = report
        self._dirty[report.pod] = None
        self.waiting += 1
        return True

    def measured(self, report: Report, now_s: float) -> None:
        """What a pod uses now. It does not count as being heard: a worker that hangs uses memory, too."""
        record = self._records.get(report.pod) or self._new(report, now_s)
        record.usage, record.usage_sent = report, False
        self._dirty[report.pod] = None

    def expire(self, now_s: float, *, silent_after_s: float, forget_after_s: float) -> list[str]:
        """Drop the windows of those unheard for so long, and all of those unheard for much longer: the newly silent."""
        silent = []
        for pod in list(self._records):
            record = self._records[pod]
            if now_s - record.heard_s < silent_after_s:
                break  # those behind were heard later
            if now_s - record.heard_s >= forget_after_s:
                self.forget(pod)
            elif record.last_seq and not record.silent:
                record.silent = True
                kept = record.evaluation
                unsent = kept is not None and kept in islice(record.to_send(), record.pending)
                record.window.clear()
                record.pending = int(unsent)
                if kept is not None:
                    record.window.append(kept)
                silent.append(pod)
        return silent

    def gone(self, pod: str) -> None:
        """It uses nothing any more. What it reported is still worth sending."""
        record = self._records.get(pod)
        if record is not None:
            record.usage, record.usage_sent = None, True
            if record.last_seq == 0:
                self.forget(pod)

    def forget(self, pod: str) -> None:
        self._records.pop(pod, None)
        self._dirty.pop(pod, None)

    def unsent(self, most: int = REPORTS_MAX) -> list[Report]:
        """What the scheduler does not have yet, oldest first for each pod."""
        self.waiting = 0
        reports: list[Report] = []
        for pod in self._dirty:
            reports.extend(islice(self._records[pod].to_send(), most - len(reports)))
            if len(reports) >= most:
                break
        return reports

    def sent(self, reports: Iterable[Report]) -> None:
        """The scheduler has these, or will never take them."""
        newest: dict[str, int] = {}
        for report in reports:
            record = self._records.get(report.pod)
            if record is not None and report.seq:
                newest[report.pod] = report.seq
            elif record is not None and record.usage is report:  # else there is a newer one meanwhile
                newest.setdefault(report.pod, 0)
                record.usage_sent = True
        for pod, seq in newest.items():
            record = self._records[pod]
            if seq:
                record.sent(seq)
            if not record.unsent:
                self._dirty.pop(pod, None)

    def all_unsent(self) -> None:
        """Another scheduler listens now: it knows nothing of what was sent."""
        for pod, record in self._records.items():
            record.pending = len(record.window)
            record.usage_sent = record.usage is None
            if record.window or record.usage is not None:
                self._dirty[pod] = None

    def _new(self, report: Report, now_s: float) -> Record:
        self.forget(report.pod)
        while len(self._records) >= self._pods_max:
            self.forget(next(iter(self._records)))  # whoever was not heard for longest
        record = self._records[report.pod] = Record(self._window, report.job_uid, now_s)
        return record

    def _heard(self, report: Report, record: Record, now_s: float) -> None:
        record.heard_s = now_s
        record.silent = False
        if report.job_uid:
            record.job_uid = report.job_uid
        self._records.move_to_end(report.pod)
