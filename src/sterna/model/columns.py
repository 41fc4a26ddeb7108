"""Numbers of all jobs, by column: one array for each question that is asked of every job in every cycle. Values only.

A question is a function of the job alone, such as `attrgetter("left_s")`, defined once: columns are kept under the
function itself. Ten thousand Python objects are slow to visit one by one, and an array of their numbers is not.

A snapshot makes its columns from its jobs when they are asked for. An engine that hears of every job that comes,
changes and goes can keep them up to date instead (`KeptColumns`), so that a cycle costs what happened and not what
there is.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sterna.model.ids import JobId
from sterna.model.jobs import Job

Floats = npt.NDArray[np.float64]
Question = Callable[[Job], float]
T = TypeVar("T")


class Columns:
    """What is asked of the jobs of one snapshot; entry for entry in their order. Arrays are not to be written to."""

    __slots__ = ("_answers", "_jobs", "_kept", "_version")

    def __init__(self, jobs: Sequence[Job], kept: "KeptColumns | None" = None) -> None:
        self._jobs = jobs
        self._answers: dict[Question, Floats] = {}
        self._kept = kept
        self._version = 0 if kept is None else kept.version

    def of(self, question: Question) -> Floats:
        kept = self._kept
        if kept is not None and kept.version == self._version:  # else the engine's columns are newer than this snapshot
            array = kept.arrays.get(question)
            return kept.of(question) if array is None else array[: len(self._jobs)]
        answers = self._answers.get(question)
        if answers is None:
            answers = self._answers[question] = _answers(question, self._jobs)
        return answers

    def each(self, function: Callable[[Job], T]) -> Sequence[T]:
        """The same for what is no number: a list."""
        kept = self._kept
        if kept is not None and kept.version == self._version:
            return kept.each(function)
        return [function(job) for job in self._jobs]


class KeptColumns:
    """Columns that an engine brings up to date job by job. Their order is that in which jobs were added."""

    def __init__(self) -> None:
        self.version = 0  # grows with every change, so that older snapshots notice
        self._jobs: list[Job] = []
        self._numbers: list[int] = []  # of the jobs in their order: ascending, with holes where jobs have gone
        self._number_of: dict[JobId, int] = {}
        self._next_number = 0
        self.arrays: dict[Question, Floats] = {}  # with room to grow at the end, so longer than there are jobs
        self._lists: dict[Callable[[Job], Any], list[Any]] = {}

    def of(self, question: Question) -> Floats:
        array = self.arrays.get(question)
        if array is None:
            array = self.arrays[question] = _answers(question, self._jobs)
        return array[: len(self._jobs)]

    def each(self, function: Callable[[Job], T]) -> Sequence[T]:
        values = self._lists.get(function)
        if values is None:
            values = self._lists[function] = [function(job) for job in self._jobs]
        return values

    def add(self, job: Job) -> None:
        """A job comes, behind all others."""
        at = len(self._jobs)
        self._jobs.append(job)
        self._numbers.append(self._next_number)
        self._number_of[job.spec.id] = self._next_number
        self._next_number += 1
        for question, array in self.arrays.items():
            if at == len(array):
                self.arrays[question] = array = np.concatenate([array, np.empty(at + _GROWTH)])
            array[at] = question(job)
        for function, values in self._lists.items():
            values.append(function(job))
        self.version += 1

    def replace(self, job: Job) -> None:
        """Something about a job has changed."""
        at = bisect_left(self._numbers, self._number_of[job.spec.id])
        self._jobs[at] = job
        for question, array in self.arrays.items():
            array[at] = question(job)
        for function, values in self._lists.items():
            values[at] = function(job)
        self.version += 1

    def remove(self, job_id: JobId) -> None:
        """A job goes; those behind it move up."""
        at, count = bisect_left(self._numbers, self._number_of.pop(job_id)), len(self._jobs)
        del self._jobs[at], self._numbers[at]
        for array in self.arrays.values():
            array[at : count - 1] = array[at + 1 : count]
        for values in self._lists.values():
            del values[at]
        self.version += 1


_GROWTH = 64  # entries beyond twice as many, so that short columns do not grow one by one


def _answers(question: Question, jobs: Sequence[Job]) -> Floats:
    return np.array([question(job) for job in jobs], np.float64)
