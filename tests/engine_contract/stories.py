"""The stories that every engine tells alike: facts over time, and the history that follows from them.

A row is a title, then facts and what is seen after them, in order. After each fact the engine comes to rest and its
scheduler decides until nothing changes. `WITHOUT` are the reasons for which an engine cannot play a row at all; what an
engine should tell and does not yet is `NOT_YET`, and its test fails as soon as it does.
"""

from collections.abc import Mapping

from tests.engine_contract.facts import (
    Cordoned,
    Declared,
    Deleted,
    Drained,
    Ends,
    MoveAsked,
    NodeBack,
    NodeLost,
    Resumed,
    Says,
    Scaled,
    SchedulerKilled,
    ServingPodWaits,
    StartsHeld,
    StartsLet,
    StopsHeld,
    StopsLet,
    Story,
    Submitted,
    Suspended,
    TimePasses,
    story,
    then,
)

HOUR_S = 3600.0
MINUTE_S = 60.0

NO_EVENTS = {"simulator": "a simulation keeps no events"}
NO_REPORTS = {"simulator": "a simulated policy is told the true work left: nothing is declared, reported or learned"}
NO_CORDON = {"local": "a node of one machine is drained or is not: nothing but this engine puts work on it"}
NO_SERVING = {"local": "nothing but training runs on the nodes of one machine"}
IN_PLACE = {"kubernetes": "under OnFailure a kubelet starts the container again in place, after a pause of its own"}
NO_RESIZING = {"simulator": "a simulated job is Waiting or Running: a change takes no time but lost progress"}

ENDS = (
    story(
        "a worker is killed twice, trains for an hour and is killed again: that failure is the first",
        Submitted(Declared(name="a", backoff_limit=2)),
        then("a", phase="Running", size=1, nodes=("node-1",), failures=0, holds="Running"),
        Ends("a", 137),
        then("a", size=1, failures=1, retry_s=1.0, holds="Restarting", not_holds="Running"),
        TimePasses(1),
        then("a", phase="Running", failures=1, retry_s=None, holds="Running"),
        Ends("a", 137),
        then("a", size=1, failures=2, retry_s=3.0),
        TimePasses(HOUR_S),
        then("a", phase="Running", failures=2, holds="Running"),
        Ends("a", 137),
        then("a", size=1, failures=1, retry_s=HOUR_S + 2, holds="Restarting"),
        TimePasses(1),
        then("a", phase="Running", failures=1, size=1, holds="Running"),
    ),
    story(
        "a worker exits 1 twice, trains for an hour and exits 1: that failure is the first",
        Submitted(Declared(name="a", restart="OnFailure", backoff_limit=2)),
        Ends("a", 1),
        TimePasses(1),
        Ends("a", 1),
        then("a", size=1, failures=2, retry_s=3.0),
        TimePasses(HOUR_S),
        Ends("a", 1),
        then("a", size=1, failures=1, retry_s=HOUR_S + 2),
        without=IN_PLACE,
    ),
    story(
        "the pause before the next try doubles with every failure",
        Submitted(Declared(name="a")),
        Ends("a", 143),
        then("a", failures=1, retry_s=1.0),
        TimePasses(1),
        Ends("a", 143),
        then("a", failures=2, retry_s=1.0 + 2.0),
        TimePasses(2),
        Ends("a", 143),
        then("a", failures=3, retry_s=3.0 + 4.0),
        TimePasses(4),
        Ends("a", 143),
        then("a", failures=4, retry_s=7.0 + 8.0, size=1),
    ),
    story(
        "one failure more than backoffLimit allows ends the job",
        Submitted(Declared(name="a", backoff_limit=1)),
        Ends("a", 137),
        then("a", failures=1, size=1),
        TimePasses(1),
        Ends("a", 137),
        then("a", phase="Failed", reason="BackoffLimitExceeded", size=0, holds="Failed", not_holds="Running"),
    ),
    story(
        "under restart policy Never the first failure ends the job",
        Submitted(Declared(name="a", restart="Never")),
        Ends("a", 1),
        then("a", phase="Failed", reason="WorkerFailed", size=0, holds="Failed"),
    ),
    story(
        "under restart policy ExitCode exit code 1 ends the job",
        Submitted(Declared(name="a", restart="ExitCode")),
        Ends("a", 1),
        then("a", phase="Failed", reason="WorkerFailed", size=0, failures=0, holds="Failed"),
    ),
    story(
        "under restart policy ExitCode exit code 137 is tried again",
        Submitted(Declared(name="a", restart="ExitCode")),
        Ends("a", 137),
        then("a", size=1, failures=1, retry_s=1.0),
        TimePasses(1),
        then("a", phase="Running", size=1, nodes=("node-1",)),
    ),
    story(
        "a gang that backs off is Resizing, and keeps its seats from those that wait",
        Submitted(Declared(name="a", at_least=4, at_most=4)),
        Submitted(Declared(name="b")),
        Ends("a", 137, "worker-3"),
        then("a", phase="Resizing", size=4, failures=1, retry_s=1.0),
        then("b", phase="Waiting", size=0, reason="NoRoom"),
        TimePasses(1),
        then("a", phase="Running", size=4),
        without=NO_RESIZING,
    ),
    story(
        "a member that others can do without fails, and comes back alone into its seat",
        Submitted(Declared(name="a", at_least=2, at_most=2, members=True)),
        Ends("a", 137, "worker-1"),
        then("a", size=2, failures=1, retry_s=1.0),
        TimePasses(1),
        then("a", phase="Running", size=2, failures=1, started_s=0.0),
    ),
    story(
        "the success of the master is the job's, although workers still run",
        Submitted(Declared(name="a", at_least=2, at_most=2, master=True)),
        then("a", phase="Running", size=2, seats=("master-0", "worker-0", "worker-1")),
        Ends("a", 0, "worker-1"),
        then("a", phase="Running"),
        Ends("a", 0, "master-0"),
        then("a", phase="Succeeded", reason="Completed", size=0, holds="Succeeded", not_holds="Running"),
    ),
    story(
        "a job without a leader succeeds when the last of its workers has ended well",
        Submitted(Declared(name="a", at_least=2, at_most=2)),
        Ends("a", 0, "worker-0"),
        then("a", phase="Running", size=2),
        Ends("a", 0, "worker-1"),
        then("a", phase="Succeeded", reason="Completed", size=0, holds="Succeeded"),
    ),
)

DEADLINES = (
    story(
        "a deadline that passes while the job runs ends it",
        Submitted(Declared(name="a", deadline_s=100)),
        then("a", phase="Running", deadline_s=100.0),
        TimePasses(99),
        then("a", phase="Running"),
        TimePasses(1),
        then("a", phase="Failed", reason="DeadlineExceeded", size=0, deadline_s=None, served_gpu_s=100.0),
    ),
    story(
        "a deadline does not begin before the job does",
        Submitted(Declared(name="a", at_least=4, at_most=4)),
        Submitted(Declared(name="b", deadline_s=100)),
        TimePasses(HOUR_S),
        then("b", phase="Waiting", deadline_s=None),
        Deleted("a"),
        then("a", phase="Gone"),
    ),
    story(
        "a job that was suspended over its deadline has all of its time again",
        Submitted(Declared(name="a", deadline_s=100)),
        TimePasses(60),
        Suspended("a"),
        then("a", phase="Suspended", deadline_s=None),
        TimePasses(HOUR_S),
        then("a", phase="Suspended"),
        Resumed("a"),
        then("a", phase="Running", deadline_s=60 + HOUR_S + 100),
        TimePasses(99),
        then("a", phase="Running"),
        TimePasses(1),
        then("a", phase="Failed", reason="DeadlineExceeded"),
    ),
    story(
        "a restart after a failure does not move the deadline",
        Submitted(Declared(name="a", deadline_s=100)),
        TimePasses(50),
        Ends("a", 137),
        TimePasses(1),
        then("a", phase="Running", deadline_s=100.0),
        TimePasses(49),
        then("a", phase="Failed", reason="DeadlineExceeded"),
    ),
)

NODES = (
    story(
        "a node is lost under a gang that cannot do with fewer: it waits, and no failure is counted",
        Submitted(Declared(name="a", at_least=4, at_most=4)),
        then("a", phase="Running", nodes=("node-1", "node-1", "node-2", "node-2")),
        TimePasses(100),
        NodeLost("node-2"),
        then("a", phase="Waiting", size=0, failures=0, waiting_since_s=100.0, served_gpu_s=400.0),
        TimePasses(50),
        then("a", phase="Waiting", served_gpu_s=400.0),
        NodeBack("node-2"),
        then("a", phase="Running", size=4, failures=0, waiting_since_s=None),
    ),
    story(
        "a gang whose node is lost starts anew on another one",
        Submitted(Declared(name="a", at_least=2, at_most=2)),
        then("a", nodes=("node-1", "node-1")),
        NodeLost("node-1"),
        TimePasses(MINUTE_S),  # a cluster keeps the names of pods on a silent node until their grace is over
        then("a", phase="Running", nodes=("node-2", "node-2"), failures=0),
    ),
    story(
        "a loss that empties a job does not end its time in the seat: a broken node is no decision against it",
        Submitted(Declared(name="a", at_least=2, at_most=2)),
        TimePasses(100),
        then("a", nodes=("node-1", "node-1"), started_s=0.0, served_since_start_gpu_s=200.0),
        NodeLost("node-1"),
        then("a", nodes=("node-2", "node-2"), started_s=0.0, served_since_start_gpu_s=200.0, served_gpu_s=200.0),
    ),
    story(
        "a loss after which the next decision has no place for the job is a preemption, and ends its time in the seat",
        Submitted(Declared(name="a", at_least=4, at_most=4)),
        TimePasses(100),
        NodeLost("node-2"),
        then("a", started_s=None),
        TimePasses(50),
        NodeBack("node-2"),
        then("a", phase="Running", started_s=150.0, served_since_start_gpu_s=0.0, served_gpu_s=400.0),
    ),
    story(
        "members that are left after a loss train on, and their time in the seat goes on",
        Submitted(Declared(name="a", at_least=1, at_most=4, members=True)),
        then("a", phase="Running", size=4, nodes=("node-1", "node-1", "node-2", "node-2")),
        TimePasses(100),
        NodeLost("node-2"),
        then("a", phase="Running", size=2, nodes=("node-1", "node-1"), started_s=0.0, failures=0),
        TimePasses(100),
        NodeBack("node-2"),
        then("a", phase="Running", size=4, seats=("worker-0", "worker-1", "worker-2", "worker-3"), started_s=0.0),
        then("a", served_gpu_s=600.0),
    ),
    story(
        "members that lose the one that all meet at begin anew, and no failure is counted",
        Submitted(Declared(name="a", at_least=1, at_most=4, members=True)),
        then("a", phase="Running", size=4, nodes=("node-1", "node-1", "node-2", "node-2")),
        NodeLost("node-1"),
        TimePasses(MINUTE_S),
        then("a", phase="Running", size=2, nodes=("node-2", "node-2"), failures=0, started_s=0.0),
    ),
    story(
        "members that are left after a loss go on at a size on their grid",
        Submitted(Declared(name="a", at_least=1, at_most=3, step=2, members=True)),
        then("a", size=3, nodes=("node-1", "node-1", "node-2")),
        NodeLost("node-2"),
        then("a", phase="Running", size=1, nodes=("node-1",)),
    ),
    story(
        "a node that comes back takes the job that waited for it",
        NodeLost("node-2"),
        Submitted(Declared(name="a", at_least=2, at_most=2)),
        Submitted(Declared(name="b", at_least=2, at_most=2)),
        then("a", phase="Running", nodes=("node-1", "node-1")),
        then("b", phase="Waiting", size=0),
        NodeBack("node-2"),
        then("b", phase="Running", nodes=("node-2", "node-2"), waiting_since_s=None),
    ),
    story(
        "a cordoned node keeps what runs there, and takes nothing new",
        Submitted(Declared(name="a")),
        Cordoned("node-1"),
        then("a", phase="Running", nodes=("node-1",)),
        Submitted(Declared(name="b")),
        then("b", phase="Running", nodes=("node-2",)),
        then("a", nodes=("node-1",), started_s=0.0),
        without=NO_CORDON,
    ),
    story(
        "a drained node is left by what runs there, and that is one migration and no failure",
        Submitted(Declared(name="a")),
        then("a", nodes=("node-1",)),
        Drained("node-1"),
        then("a", phase="Running", nodes=("node-2",), migrations=1, failures=0, reason="NodeDrained"),
    ),
)

OWNERS = (
    story(
        "a suspended job holds nothing and waits for nothing, and others have its room",
        Submitted(Declared(name="a", at_least=4, at_most=4)),
        Submitted(Declared(name="b", at_least=4, at_most=4)),
        then("b", phase="Waiting", reason="NoRoom"),
        Suspended("a"),
        then("a", phase="Suspended", size=0, waiting_since_s=None, started_s=None, reason="Suspended"),
        then("a", holds="Suspended", not_holds="Running"),
        then("b", phase="Running", size=4),
    ),
    story(
        "a job that is resumed runs again where there is room",
        Submitted(Declared(name="a", at_least=2, at_most=2)),
        TimePasses(100),
        Suspended("a"),
        TimePasses(50),
        Resumed("a"),
        then("a", phase="Running", size=2, started_s=150.0, holds="Running", not_holds="Suspended"),
    ),
    story(
        "a job that is resumed and finds no room waits from its resumption on",
        Submitted(Declared(name="a", at_least=4, at_most=4)),
        Submitted(Declared(name="b", suspended=True)),
        then("b", phase="Suspended", waiting_since_s=None),
        TimePasses(50),
        Resumed("b"),
        then("b", phase="Waiting", waiting_since_s=50.0, size=0, reason="NoRoom"),
    ),
    story(
        "a job that is scaled below its size lets go of what is above",
        Submitted(Declared(name="a", at_least=1, at_most=4)),
        then("a", size=4),
        Scaled("a", 1, 2),
        then("a", phase="Running", size=2, nodes=("node-1", "node-1"), failures=0),
    ),
    story(
        "a job that is scaled above its size grows into the room there is",
        Submitted(Declared(name="a", at_least=1, at_most=1)),
        then("a", size=1),
        Scaled("a", 2, 3),
        then("a", phase="Running", size=3, failures=0),
    ),
    story(
        "a job that is deleted while its workers start is gone",
        StartsHeld(),
        Submitted(Declared(name="a")),
        then("a", size=1),
        Deleted("a"),
        then("a", phase="Gone"),
        StartsLet(),
        then("a", phase="Gone", size=0),
    ),
)

SHARING = (
    story(
        "two jobs are seated in the order of their arrival",
        Submitted(Declared(name="b", at_least=2, at_most=2)),
        Submitted(Declared(name="c", at_least=2, at_most=2)),
        then("b", phase="Running", nodes=("node-1", "node-1"), seats=("worker-0", "worker-1")),
        then("c", phase="Running", nodes=("node-2", "node-2"), seats=("worker-0", "worker-1")),
    ),
    story(
        "service is attained only while workers are held",
        Submitted(Declared(name="a", at_least=2, at_most=2)),
        TimePasses(100),
        then("a", served_gpu_s=200.0, served_since_start_gpu_s=200.0),
        Suspended("a"),
        TimePasses(1000),
        then("a", served_gpu_s=200.0),
        Resumed("a"),
        TimePasses(50),
        then("a", served_gpu_s=300.0, served_since_start_gpu_s=100.0),
    ),
    story(
        "a job grows into the room of another that ends",
        Submitted(Declared(name="a", at_least=1, at_most=4)),
        Submitted(Declared(name="b", at_least=2, at_most=2)),
        then("a", phase="Running", size=2),
        then("b", phase="Running", size=2),
        Ends("b", 0, "worker-0"),
        Ends("b", 0, "worker-1"),
        TimePasses(MINUTE_S),
        then("b", phase="Succeeded", size=0),
        then("a", phase="Running", size=4),
    ),
    story(
        "a job that grew is told of as ScaledUp",
        Submitted(Declared(name="a", at_least=1, at_most=4)),
        Submitted(Declared(name="b", at_least=2, at_most=2)),
        Ends("b", 0, "worker-0"),
        Ends("b", 0, "worker-1"),
        TimePasses(MINUTE_S),
        then("a", size=4, said="ScaledUp"),
        without=NO_EVENTS,
    ),
    story(
        "a serving pod that waits is made room for",
        Submitted(Declared(name="a", at_least=1, at_most=4)),
        then("a", size=4),
        ServingPodWaits("serve", 1),
        then("a", phase="Running", size=3),
        without=NO_SERVING,
    ),
)

WORK = (
    story(
        "work left is what the owner declared, although jobs like it took more",
        Submitted(Declared(name="first", category="like")),
        Says("first", 100.0, 100.0),
        Ends("first", 0),
        then("first", phase="Succeeded"),
        Submitted(Declared(name="declared", category="like", epochs=20)),
        then("declared", units_left=20.0),
        Submitted(Declared(name="silent", category="like")),
        then("silent", units_left=100.0),
        without=NO_REPORTS,
    ),
    story(
        "what the program says is to be done counts before what its owner declared",
        Submitted(Declared(name="a", epochs=20)),
        then("a", units_left=20.0),
        Says("a", 5.0, 50.0),
        then("a", units_left=45.0),
        without=NO_REPORTS,
    ),
    story(
        "declared epochs are counted in the units of a program that counts something else",
        Submitted(Declared(name="a", epochs=20)),
        Says("a", 500.0, None, epoch=5),
        then("a", units_left=1500.0),
        without=NO_REPORTS,
    ),
    story(
        "a job whose loss hardly changes any more is told of in the same words",
        Submitted(Declared(name="a")),
        Says("a", 10.0, loss=1.0),
        TimePasses(MINUTE_S),
        Says("a", 20.0, loss=0.1),
        TimePasses(MINUTE_S),
        Says("a", 30.0, loss=0.099),
        then("a", said="Watching", told="loss grows slowly"),
        TimePasses(MINUTE_S),
        Says("a", 40.0, loss=0.0989),
        then("a", said="Converged", told="loss hardly changes any more"),
        without=NO_REPORTS,
    ),
)

MOVES = (
    story(
        "a move that is asked for is made",
        Submitted(Declared(name="a")),
        then("a", nodes=("node-1",)),
        MoveAsked("a", "node-2"),
        then("a", phase="Running", nodes=("node-2",), migrations=1, failures=0, refused=False),
    ),
    story(
        "a move to a node that has no room is refused with a reason, and the job stays",
        Submitted(Declared(name="a", at_least=2, at_most=2)),
        Submitted(Declared(name="b", at_least=2, at_most=2)),
        then("a", nodes=("node-1", "node-1")),
        MoveAsked("a", "node-2"),
        then("a", phase="Running", nodes=("node-1", "node-1"), migrations=0, refused=True),
        then("b", phase="Running", nodes=("node-2", "node-2")),
    ),
    story(
        "a move that was begun is brought to its end by the scheduler that comes after a crash",
        Submitted(Declared(name="a")),
        then("a", nodes=("node-1",)),
        StopsHeld(),
        MoveAsked("a", "node-2"),
        SchedulerKilled(),
        StopsLet(),
        then("a", phase="Running", nodes=("node-2",), migrations=1, failures=0),
    ),
    story(
        "a move does not end a job's time in the seat",
        Submitted(Declared(name="a")),
        TimePasses(100),
        MoveAsked("a", "node-2"),
        then("a", phase="Running", nodes=("node-2",), started_s=0.0, served_since_start_gpu_s=100.0),
    ),
    story(
        "a resize for which all workers go first does not end a job's time in the seat",
        Submitted(Declared(name="a", at_least=1, at_most=4)),
        TimePasses(100),
        StopsHeld(),
        Scaled("a", 1, 2),
        StopsLet(),
        then("a", phase="Running", size=2, started_s=0.0, served_since_start_gpu_s=400.0),
    ),
    story(
        "workers that were decided on start although the scheduler is killed before they do",
        StartsHeld(),
        Submitted(Declared(name="a", at_least=2, at_most=2)),
        then("a", size=2),
        SchedulerKilled(),
        StartsLet(),
        then("a", phase="Running", size=2, nodes=("node-1", "node-1"), failures=0, holds="Running"),
    ),
    story(
        "a back-off goes on where it was after the scheduler is killed",
        Submitted(Declared(name="a")),
        Ends("a", 137),
        TimePasses(1),
        Ends("a", 137),
        then("a", failures=2, retry_s=3.0),
        SchedulerKilled(),
        then("a", failures=2, retry_s=3.0, size=1),
        TimePasses(2),
        then("a", phase="Running", failures=2, retry_s=None, nodes=("node-1",)),
    ),
)

STORIES: tuple[Story, ...] = (*ENDS, *DEADLINES, *NODES, *OWNERS, *SHARING, *WORK, *MOVES)

# By title and engine: what is wrong there. A row leaves this list together with its fix.
NOT_YET: Mapping[tuple[str, str], str] = {
    ("a gang that backs off is Resizing, and keeps its seats from those that wait", "local"): (
        "engines/local/reconcile/row_changes.py, _restart: the phase stays Running while the gang is started anew"
    ),
    ("a loss that empties a job does not end its time in the seat: a broken node is no decision against it", "local"): (
        "engines/local/reconcile/lost_seats.py, leave_places: comes_back=False, so the seat is given up for good"
    ),
    (
        "a loss that empties a job does not end its time in the seat: a broken node is no decision against it",
        "simulator",
    ): "engines/simulator/world.py, _stopped and _began: holding nothing for a moment begins a new time in the seat",
    ("a resize for which all workers go first does not end a job's time in the seat", "simulator"): (
        "engines/simulator/world.py, _stopped and _began: holding nothing for a moment begins a new time in the seat"
    ),
    ("a job that grew is told of as ScaledUp", "local"): (
        "engines/local/reconcile/changes.py, _EVENTS: a resize is told of as Resized, whichever way it goes"
    ),
    ("a job whose loss hardly changes any more is told of in the same words", "kubernetes"): (
        "engines/kubernetes/reconcile/transitions.py, told_of_growth: other words than the local engine's _tell"
    ),
    ("a serving pod that waits is made room for", "kubernetes"): (
        "engines/kubernetes/world/world.py, snapshot: waiting serving pods are shown, and nothing is reserved for them"
    ),
}
