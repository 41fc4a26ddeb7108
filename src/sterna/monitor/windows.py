"""What the monitor remembers of each pod: the latest reports, what was sent on, and when it was last heard.

Plain memory with bounds and no clock of its own. A pod that falls silent loses its window, and keeps the last
evaluation and the number of its last report: a program that evaluates once in ten minutes is slow, not new.

A pod is remembered once for each job that spoke for it. Jobs that had the same name one after another have pods of the
same names, and a process of the earlier one that lives on, or a program that kept its token, must not touch what the
present one said. Which of them is the present one the scheduler knows.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from itertools import islice, takewhile

from sterna.protocol.reports import REPORTS_MAX, Report

WINDOW = 64  # reports of one pod
PODS_MAX = 1024


class Record:
    """One pod."""

    __slots__ = (
        *("evaluation", "heard_s", "last_seq", "pending", "refusal", "refused", "silent"),
        *("usage", "usage_sent", "window"),
    )

    def __init__(self, window: int, now_s: float) -> None:
        self.window: deque[Report] = deque(maxlen=window)
        self.evaluation: Report | None = None  # the latest that has a value
        self.last_seq = 0
        self.pending = 0  # so many at the end of the window are unsent
        self.usage: Report | None = None
        self.usage_sent = True
        self.refused = 0  # reports that the scheduler will never take
        self.refusal = ""  # why, the latest time
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

    def drop(self, report: Report) -> None:
        """It will never be taken."""
        kept = [other for other in self.window if other is not report]
        if len(kept) < len(self.window):
            unsent = list(islice(self.window, len(self.window) - self.pending, None))
            self.pending -= any(other is report for other in unsent)
            self.window = deque(kept, maxlen=self.window.maxlen)
        if self.usage is report:
            self.usage_sent = True
        if self.evaluation is report:
            self.evaluation = next((other for other in reversed(kept) if other.value is not None), None)


Key = tuple[str, str]  # namespace/name of a pod, and uid of the job whose token spoke for it. "": the monitor's own


class Windows:
    def __init__(self, *, window: int = WINDOW, pods_max: int = PODS_MAX) -> None:
        self._window = window
        self._pods_max = pods_max
        self._records: OrderedDict[Key, Record] = OrderedDict()  # longest unheard first
        self._dirty: dict[Key, None] = {}  # with something unsent, in the order in which they got it
        self.waiting = 0  # reports taken since the last batch was put together: a measure of haste, not of size
        self.lost = 0  # fell out of a full window before they were sent
        self.refused = 0  # the scheduler will never take them

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, key: Key) -> bool:
        return key in self._records

    def items(self) -> Iterable[tuple[Key, Record]]:
        return self._records.items()

    def last_seq(self, pod: str, job_uid: str = "") -> int:
        record = self._records.get((pod, job_uid))
        return 0 if record is None else record.last_seq

    def take(self, report: Report, now_s: float) -> bool:
        """Remember it. False: its number was seen before."""
        key = _key(report)
        record = self._records.get(key)
        if record is None:
            record = self._new(key, now_s)
        elif report.seq <= record.last_seq:
            return False
        record.heard_s = now_s
        record.silent = False
        self._records.move_to_end(key)
        record.last_seq = report.seq
        window = record.window
        if record.pending == window.maxlen:
            self.lost += 1
        else:
            record.pending += 1
        window.append(report)
        if report.value is not None:
            record.evaluation = report
        self._dirty[key] = None
        self.waiting += 1
        return True

    def measured(self, report: Report, now_s: float) -> None:
        """What a pod uses now. It does not count as being heard: a worker that hangs uses memory, too."""
        key = _key(report)
        record = self._records.get(key) or self._new(key, now_s)
        record.usage, record.usage_sent = report, False
        self._dirty[key] = None

    def expire(self, now_s: float, *, silent_after_s: float, forget_after_s: float) -> list[str]:
        """Drop the windows of those unheard for so long, and all of those unheard for much longer: the newly silent."""
        silent = []
        for key in list(self._records):
            record = self._records[key]
            if now_s - record.heard_s < silent_after_s:
                break  # those behind were heard later
            if now_s - record.heard_s >= forget_after_s:
                self._forget(key)
            elif record.last_seq and not record.silent:
                record.silent = True
                kept = record.evaluation
                unsent = kept is not None and kept in islice(record.to_send(), record.pending)
                record.window.clear()
                record.pending = int(unsent)
                if kept is not None:
                    record.window.append(kept)
                silent.append(key[0])
        return silent

    def gone(self, pod: str) -> None:
        """It uses nothing any more. What it reported is still worth sending."""
        for key in [key for key in self._records if key[0] == pod]:
            record = self._records[key]
            record.usage, record.usage_sent = None, True
            if record.last_seq == 0:
                self._forget(key)

    def unsent(self, most: int = REPORTS_MAX) -> list[Report]:
        """What the scheduler does not have yet, oldest first for each pod."""
        self.waiting = 0
        reports: list[Report] = []
        for key in self._dirty:
            reports.extend(islice(self._records[key].to_send(), most - len(reports)))
            if len(reports) >= most:
                break
        return reports

    def sent(self, reports: Iterable[Report]) -> None:
        """The scheduler has these."""
        newest: dict[Key, int] = {}
        for report in reports:
            key = _key(report)
            record = self._records.get(key)
            if record is not None and report.seq:
                newest[key] = report.seq
            elif record is not None and record.usage is report:  # else there is a newer one meanwhile
                newest.setdefault(key, 0)
                record.usage_sent = True
        for key, seq in newest.items():
            record = self._records[key]
            if seq:
                record.sent(seq)
            if not record.unsent:
                self._dirty.pop(key, None)

    def refuse(self, report: Report, why: str) -> None:
        """The scheduler will never take this one: it is dropped and counted."""
        self.refused += 1
        key = _key(report)
        record = self._records.get(key)
        if record is None:
            return
        record.drop(report)
        record.refused += 1
        record.refusal = why
        if not record.unsent:
            self._dirty.pop(key, None)

    def all_unsent(self) -> None:
        """Another scheduler listens now: it knows nothing of what was sent."""
        for key, record in self._records.items():
            record.pending = len(record.window)
            record.usage_sent = record.usage is None
            if record.window or record.usage is not None:
                self._dirty[key] = None

    def _new(self, key: Key, now_s: float) -> Record:
        while len(self._records) >= self._pods_max:
            self._forget(next(iter(self._records)))  # the pod that was not heard for longest
        record = self._records[key] = Record(self._window, now_s)
        return record

    def _forget(self, key: Key) -> None:
        self._records.pop(key, None)
        self._dirty.pop(key, None)


def _key(report: Report) -> Key:
    return (report.pod, report.job_uid)
