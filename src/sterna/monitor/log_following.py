"""The files of watched workers, followed: output with a pattern, and training logs with a row per epoch."""

import asyncio
import csv
from collections.abc import Callable, Iterable
from pathlib import Path

from sterna.monitor.found import report_from_groups, report_from_row
from sterna.monitor.matcher import Matcher
from sterna.monitor.tail import ContainerLines, Line, Tail
from sterna.monitor.watched import Watched
from sterna.protocol.reports import Report

LINES_MAX = 2000  # given to a pattern at a time; of more the newest
NAMESPACE_S = 1.0  # of matching for one namespace in one round; what its other pods wrote meanwhile is passed over
EPOCHS_BYTES_MAX = 4 << 20  # of a training log at a time: its header must be among them, so this is plenty


class Following:
    """`last_seq` says up to where a pod's numbers have come, so that found reports go on above them."""

    def __init__(
        self,
        *,
        last_seq: Callable[[str, str], int],
        matcher: Matcher,
        faulted: Callable[[str, str], None] = lambda pod, fault: None,
    ) -> None:
        """`faulted` hears of a pod whose output is not followed any more, or not all of it, and why."""
        self._faulted = faulted
        self._last_seq = last_seq
        self._matcher = matcher
        self._outputs: dict[str, _Output] = {}
        self._epochs: dict[str, _EpochFile] = {}
        self._turn = 0  # another pod comes first in every round

    def watch(self, watched: Watched) -> None:
        """From now on, or as changed. Output that is there already counts only where it says when it was written."""
        pod = watched.pod
        if watched.log is None or not watched.pattern:
            self._outputs.pop(pod, None)
        elif (output := self._outputs.get(pod)) is None or output.path != watched.log:
            self._outputs[pod] = _Output(watched.log, watched.pattern)
        else:
            output.pattern = watched.pattern
        if watched.epochs is None:
            self._epochs.pop(pod, None)
        elif pod not in self._epochs:
            self._epochs[pod] = _EpochFile(watched.epochs)

    def unwatch(self, pod: str) -> None:
        self._outputs.pop(pod, None)
        self._epochs.pop(pod, None)

    async def news(self, watched: Iterable[Watched], now_s: float) -> list[Report]:
        """What was written since last time, as reports. Files are read in a thread: a training log may lie on NFS."""
        reports: list[Report] = []
        used_s: dict[str, float] = {}  # by namespace
        news = await asyncio.to_thread(self._read, tuple(watched))
        self._turn += 1
        for each, lines, rows in news[self._turn % max(1, len(news)) :] + news[: self._turn % max(1, len(news))]:
            namespace = each.pod.partition("/")[0]
            if lines and used_s.get(namespace, 0.0) < NAMESPACE_S:
                reports += await self._of_output(each, lines, now_s)
                used_s[namespace] = used_s.get(namespace, 0.0) + self._matcher.took_s
            elif lines:
                self._faulted(each.pod, f"patterns of this namespace take more than {NAMESPACE_S:g} s at a time")
            reports += self._of_epochs(each, rows, now_s)
        return reports

    def _read(self, watched: tuple[Watched, ...]) -> list[tuple[Watched, list[Line], list[dict[str, str]]]]:
        news = []
        for each in watched:
            output, epochs = self._outputs.get(each.pod), self._epochs.get(each.pod)
            lines = [] if output is None else output.new_lines()
            rows = [] if epochs is None else epochs.new_rows()
            if lines or rows:
                news.append((each, lines[-LINES_MAX:], rows))
        return news

    async def _of_output(self, watched: Watched, lines: list[Line], now_s: float) -> list[Report]:
        output = self._outputs.get(watched.pod)
        if output is None:  # no longer watched since it was read
            return []
        reports: list[Report] = []
        seq = self._last_seq(watched.pod, watched.job_uid)
        for place, groups in await self._matcher.found(output.pattern, [line.text for line in lines]):
            written_s = lines[place].at_s
            report = report_from_groups(
                groups,
                pod=watched.pod,
                at_s=now_s if written_s is None else written_s,
                last_seq=seq if written_s is None else output.seq,  # so a line read twice has the same number twice
                job_uid=watched.job_uid,
            )
            if report is not None:
                seq = output.seq = report.seq
                reports.append(report)
        fault = self._matcher.faults.get(output.pattern)
        if fault is not None:
            self._faulted(watched.pod, fault)
        return reports

    def _of_epochs(self, watched: Watched, rows: list[dict[str, str]], now_s: float) -> list[Report]:
        epochs = self._epochs.get(watched.pod)
        reports: list[Report] = []
        for row in rows if epochs is not None else ():
            assert epochs is not None
            report = report_from_row(row, pod=watched.pod, now_s=now_s, last_seq=epochs.seq, job_uid=watched.job_uid)
            if report is not None:
                epochs.seq = report.seq
                reports.append(report)
        return reports


class _Output:
    """A file of plain output, or a directory where a container runtime keeps `<container>/<starts before>.log`."""

    def __init__(self, path: Path, pattern: str) -> None:
        self.path = path
        self.pattern = pattern
        self.seq = 0
        self._plain = None if path.is_dir() else Tail(path, from_start=False)
        self._containers: dict[str, _ContainerLog] = {}

    def new_lines(self) -> list[Line]:
        if self._plain is not None:
            return [Line(raw.decode("utf-8", "replace"), None) for raw in self._plain.new_lines()]
        for name, file in latest_logs(self.path).items():
            if name not in self._containers:
                self._containers[name] = _ContainerLog()
            self._containers[name].goes_on_in(file)
        lines = [line for container in self._containers.values() for line in container.new_lines()]
        return sorted(lines, key=lambda line: line.at_s or 0.0)


class _ContainerLog:
    def __init__(self) -> None:
        self._files: list[tuple[Path, Tail]] = []
        self._lines = ContainerLines()

    def goes_on_in(self, file: Path) -> None:
        """The container started again, or for the first time; what its predecessor wrote last is still read."""
        if not self._files or self._files[-1][0] != file:
            self._files.append((file, Tail(file, from_start=True)))

    def new_lines(self) -> list[Line]:
        raws = [raw for _, tail in self._files for raw in tail.new_lines()]
        del self._files[:-1]
        return [line for raw in raws if (line := self._lines.read(raw)) is not None]


class _EpochFile:
    def __init__(self, path: Path) -> None:
        self.seq = 0
        self._tail = Tail(path, from_start=True, read_bytes_max=EPOCHS_BYTES_MAX)
        self._header: list[str] = []

    def new_rows(self) -> list[dict[str, str]]:
        rows = []
        for raw in self._tail.new_lines():
            try:
                cells = next(csv.reader([raw.decode("utf-8")], strict=True), [])
            except (csv.Error, UnicodeDecodeError):
                continue
            if "epoch" in cells:  # written again after a restart, maybe with other columns
                self._header = cells
            elif len(cells) == len(self._header):
                rows.append(dict(zip(self._header, cells, strict=True)))
        return rows


def latest_logs(directory: Path) -> dict[str, Path]:
    """For each container the log of its latest start."""
    latest: dict[str, tuple[int, Path]] = {}
    try:
        for path in directory.glob("*/*.log"):
            if path.stem.isdigit():
                latest[path.parent.name] = max(latest.get(path.parent.name, (-1, path)), (int(path.stem), path))
    except OSError:
        pass  # it is being removed while we look
    return {name: path for name, (_, path) in latest.items()}
