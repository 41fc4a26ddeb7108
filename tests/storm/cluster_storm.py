"""The order of a storm: jobs come, everything happens to everything, then peace; and what must hold, told from outside.

1. While it lasts, the observer holds every change against what must always be true.
2. Then everything is mended and no program ends: the operator comes to rest.
3. Programs go on, and every job ends as they earned.
4. The operator comes to rest again, and nothing is left over.
"""

import time
from collections import Counter, deque
from dataclasses import dataclass

from tests.cluster.requests import ApiError, until
from tests.storm.audit_trail import AuditTrail
from tests.storm.disturbances import Disturbance, is_open, mend
from tests.storm.errands import Errand, drawn, plural_path
from tests.storm.lookout import Lookout
from tests.storm.observer import SeenJob, SeenPod
from tests.storm.weather import Weather

LAST = 40  # disturbances that a failure shows
# What may be written for one job within a minute. A pod costs itself, its service, the end of both, its events, and a
# change of the status for each step of its life. Beside that every disturbance may change the status and be told in an
# event, what admission refuses is tried again after growing pauses, and an operator that was killed tells again what
# may not have been told: that came to 80 at most. A loop without a pause writes thousands.
WRITES_A_MINUTE = 150
WRITES_A_POD = 10
PODS_A_MINUTE = 60
CYCLES_TO_REST = 2  # decisions after the last thing that happened
GRAIN_S = 0.5  # how often the observer is asked what is wrong


@dataclass(frozen=True, kw_only=True)
class Size:
    jobs: int  # at a time
    nodes: int
    for_s: float
    disturbance_s: float  # mean time between two
    run_s: tuple[float, float]  # how long programs run, from and to
    quiet_s: float  # without a single write: rest
    patience_s: float = 600.0


class ClusterStorm:
    def __init__(
        self,
        weather: Weather,
        lookout: Lookout,
        trail: AuditTrail,
        size: Size,
        disturbances: tuple[tuple[Disturbance, int], ...],
    ) -> None:
        self.met: Counter[str] = Counter()
        self.jobs = 0  # that came
        self._weather = weather
        self._lookout = lookout
        self._trail = trail
        self._size = size
        self._disturbances = disturbances
        self._done: deque[str] = deque(maxlen=LAST)
        self._began_s = time.monotonic()

    # -- the storm

    def rage(self) -> None:
        size, chance = self._size, self._weather.chance
        until_s = time.monotonic() + size.for_s
        while time.monotonic() < until_s:
            self._fill()
            self._disturb()
            self.check()
            self._weather.pass_s(min(chance.expovariate(1 / size.disturbance_s), until_s - time.monotonic()))

    def _fill(self) -> None:
        """As many jobs that have not ended as there may be."""
        weather, size = self._weather, self._size
        weather.ended = {(job.namespace, job.name) for job in self._seen_jobs() if job.verdict}
        errands = weather.programs.errands
        for _ in range(size.jobs - len(errands.keys() - weather.ended)):
            endless = sum(not errand.earns for errand in errands.values()) < size.nodes // 2
            namespace = weather.chance.choice(weather.namespaces)
            errand = drawn(weather.chance, self.jobs, namespace, run_s=size.run_s, endless=endless)
            errands[namespace, errand.name] = errand
            weather.api.create(plural_path(errand.kind, namespace), errand.body())
            self.jobs += 1

    def _disturb(self) -> None:
        functions, weights = zip(*self._disturbances, strict=True)
        (disturbance,) = self._weather.chance.choices(functions, weights)
        name = disturbance.__name__
        try:
            done = disturbance(self._weather)
        except ApiError as error:
            done = f"{name}: {error}"
        if done is not None:
            self.met[name] += 1
            self._done.append(f"{time.monotonic() - self._began_s:.1f} s: {done}")

    def calm(self) -> None:
        """The end of everything that lasts, and of everything that programs do."""
        self._weather.nodes.habits.programs_pause = True
        mend(self._weather)

    def go_on(self) -> None:
        self._weather.nodes.habits.programs_pause = False

    # -- what must hold

    def check(self) -> None:
        self._trail.read()
        self._weather.operator.check()
        self._lookout.ask(lambda observer: observer.look())
        wrongs = self._lookout.ask(lambda observer: list(observer.wrongs))
        assert not wrongs, f"{wrongs}\n{self.story()}"

    def until_rest(self) -> float:
        """Until no write came for so long; answers when the last one was. Since something last happened to a pod there
        were few decisions: two cycles, and one for every moment that a job waited for."""
        began_s, quiet_s = time.time(), self._size.quiet_s
        timers = sum(job.timers for job in self._seen_jobs())

        def rests() -> bool:
            self.check()
            latest_s = max((write.at_s for write in self._trail.writes), default=0.0)
            return time.time() - max(latest_s, began_s) >= quiet_s

        until(rests, "no write any more", patience_s=self._size.patience_s, every_s=GRAIN_S, story=self._last_writes)
        unprovoked = self._lookout.ask(lambda observer: set(observer.unprovoked))
        assert len(unprovoked) <= CYCLES_TO_REST + timers, f"{unprovoked}\n{self._last_writes()}"
        return max((write.at_s for write in self._trail.since(began_s)), default=began_s) - began_s

    def until_ended(self) -> None:
        """Every job that is left, and is to end, as its programs earned it."""

        def ended() -> bool:
            self.check()
            seen = self._seen()
            return all(key in seen and seen[key].verdict for key, errand in self._left() if is_open(errand))

        until(ended, "every job ends", patience_s=self._size.patience_s, every_s=GRAIN_S, story=self._unended)
        seen = self._seen()
        ends = [(errand, seen[key]) for key, errand in self._left() if key in seen and seen[key].verdict]
        wrong = [what for errand, job in ends if (what := self._injustice(errand, job)) is not None]
        assert not wrong, f"{wrong}\n{self.story()}"

    def writes_are_bounded(self) -> str:
        """Answers the most that was written for a job within a minute, beside what its pods cost."""
        minutes = [(writes, pods, job) for job, writes, pods in self._trail.minutes() if job[0]]
        wrong = {
            name: f"{writes} writes for {name} in a minute, {pods} pods made: {self._trail.of_job(namespace, name)}"
            for writes, pods, (namespace, name) in minutes
            if writes > WRITES_A_MINUTE + WRITES_A_POD * pods or pods > PODS_A_MINUTE
        }
        assert not wrong, f"{list(wrong.values())[:5]}\n{self._last_writes()}"
        writes, pods, job = max(minutes, key=lambda each: each[0] - WRITES_A_POD * each[1])
        return f"{writes} with {pods} pods made, for {job[1]}: {self._trail.of_job(*job)}"

    def nothing_is_left_over(self) -> None:
        self.check()
        wrong = self._lookout.ask(lambda observer: observer.left_over())
        seen = self._seen()
        for key, errand in self._left():
            job = seen[key]
            if job.verdict:
                continue
            pods = [pod for pod in self._pods(job) if not pod.over]
            if errand.suspended and pods:
                wrong.append(f"{errand.name} is suspended and has {[pod.name for pod in pods]}")
            if not errand.suspended:
                wrong += _unready(errand, pods)
        assert not wrong, f"{wrong}\n{self.story()}"

    def _left(self) -> list[tuple[tuple[str, str], Errand]]:
        return list(self._weather.programs.errands.items())

    def _seen(self) -> dict[tuple[str, str], SeenJob]:
        """By namespace and name."""
        return {(job.namespace, job.name): job for job in self._seen_jobs()}

    def _seen_jobs(self) -> list[SeenJob]:
        return self._lookout.ask(lambda observer: list(observer.jobs.values()))

    def _pods(self, job: SeenJob | None) -> list[SeenPod]:
        return [] if job is None else self._lookout.ask(lambda observer: observer.of_job(job.uid))

    def _injustice(self, errand: Errand, job: SeenJob) -> str | None:
        """What is wrong with how it ended. None: nothing is."""
        if job.verdict != errand.earns:
            return f"{errand.name} earned {errand.earns or 'nothing yet'} and is {job.verdict}: {job.message}"
        earned = self._lookout.ask(lambda observer: observer.earned[job.uid])
        leader = errand.leader.removeprefix(f"{errand.name}-")
        through = leader in earned.completed if errand.kind == "MPIJob" else bool(earned.completed)
        if job.verdict == "Succeeded" and not through:
            return f"{errand.name} Succeeded, and no pod of it did"
        if job.verdict == "Failed" and not any(code == "3" for _, code in earned.failed):
            return f"{errand.name} Failed, and no pod of it did: {job.message}"
        return None

    # -- what a failure shows

    def story(self) -> str:
        return "\n".join(["the last disturbances:", *self._done, "the operator:", self._weather.operator.said()])

    def _last_writes(self) -> str:
        writes = [f"{write.verb} {write.what} {write.name} {write.code}" for write in list(self._trail.writes)[-40:]]
        return "\n".join(["the last writes:", *writes, self.story()])

    def _unended(self) -> str:
        lines, seen = [], self._seen()
        for key, errand in self._left():
            job = seen.get(key)
            if is_open(errand) and (job is None or not job.verdict):
                pods = [(pod.name, pod.node, pod.phase) for pod in self._pods(job)]
                body = self._weather.api.get(errand.path) if job is not None else {}
                said = body.get("status", {}).get("scheduling", {})
                kept = {name: said.get(name) for name in ("state", "reason", "message", "retryAt", "refusals")}
                lines.append(f"{errand.kind} {errand.name} {errand.policy}: {kept} {pods}")
        return "\n".join([*lines, self.story()])


def _unready(errand: Errand, pods: list[SeenPod]) -> list[str]:
    """What runs on for ever has its pods, or has none and waits."""
    running, low = [pod for pod in pods if pod.alive and pod.phase == "Running"], errand.sizes[0]
    if pods and len(running) < low:
        return [f"{errand.name} has {[(pod.name, pod.phase) for pod in pods]} and needs {low} workers"]
    return []
