"""What the demo does and when: jobs that come one by one, a node that is emptied and comes back. Values only."""

from typing import NamedTuple

NODES = 3
GPUS_PER_NODE = 2
RATE_LIMIT_S = 3.0  # between two decisions: a change of size costs a save and a load, so it should live a while
LASTS_ABOUT_S = 120
GIVES_UP_AFTER_S = 600.0  # a machine ten times slower than ours still gets through


class Cue(NamedTuple):
    """One job, and when it enters."""

    at_s: float
    name: str
    workers_min: int
    workers_max: int
    epochs: int  # of 16 steps each; a worker takes PACE_S for a step at least


class Drain(NamedTuple):
    at_s: float
    back_s: float
    node: int  # which of the nodes


PACE_S = 0.1
CUES = (
    Cue(0, "anemone", 1, 6, 60),
    Cue(4, "barnacle", 1, 4, 40),
    Cue(9, "cuttlefish", 2, 2, 30),
    Cue(15, "dogwhelk", 1, 3, 35),
    Cue(22, "eider", 1, 4, 30),
    Cue(30, "fulmar", 1, 2, 20),
)
DRAIN = Drain(at_s=38, back_s=62, node=1)

_MANIFEST = """\
apiVersion: sterna.dev/v1alpha1
kind: ElasticJob
metadata:
  name: {name}
spec:
  workers: {{min: {minimum}, max: {maximum}}}
  epochs: {epochs}
  runPolicy: {{backoffLimit: 3}}
  template:
    spec:
      terminationGracePeriodSeconds: 20
      containers:
        - name: trainer
          command: ["{python}", "{script}", --epochs, "{epochs}", --samples, "1024", --pace, "{pace}", --seed, "{seed}"]
          env:
            - {{name: OMP_NUM_THREADS, value: "1"}}
          resources:
            limits: {{nvidia.com/gpu: 1}}
"""


def manifest(cue: Cue, *, python: str, script: str) -> str:
    """The job as a user submits it."""
    return _MANIFEST.format(
        name=cue.name,
        minimum=cue.workers_min,
        maximum=cue.workers_max,
        epochs=cue.epochs,
        python=python,
        script=script,
        pace=PACE_S,
        seed=CUES.index(cue),
    )
