"""A TensorFlow job whose workers may be taken away at any moment, as container-migration has it, with several servers.

    sterna submit -f examples/tensorflow-preemptible/job.yaml

Weights and the global step live on the parameter servers, and nowhere else. The chief initialises, saves and evaluates;
it is a second process beside the first server, so that moving workers never moves it. A worker holds nothing: one that
is killed or moved loses its step in flight, and its successor asks the servers how far the job is. What the original
lacks: a server that is told to stop has the chief save first, and takes that up when it comes back.

Who is who comes from TF_CONFIG, in which the chiefs' places stand before those of the workers, one for each server
(annotation `sterna.dev/chief-in-ps`). Without TF_CONFIG the same model is trained by this process alone.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where digits.py is

import tensorflow.compat.v1 as tf
from digits import SIDE, digits

from sterna import training


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000, help="of all workers together")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--samples", type=int, default=8192)
    parser.add_argument("--evaluate-every", type=int, default=20, help="batches of a worker")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds that a worker's step takes at least")
    parser.add_argument("--chief", action="store_true", help="as the server starts it beside itself")
    options = parser.parse_args()

    tf.disable_v2_behavior()
    tf.logging.set_verbosity(tf.logging.ERROR)
    if "TF_CONFIG" not in os.environ:
        return train_alone(options)
    task = Task(json.loads(os.environ["TF_CONFIG"]))
    if task.kind == "ps":
        return serve(task)
    return lead(task, options) if options.chief else work(task, options)


class Task:
    """This process among the others."""

    def __init__(self, config):
        self.cluster = tf.train.ClusterSpec(config["cluster"])
        self.kind, self.index = config["task"]["type"], config["task"]["index"]
        self.chief_address = config["cluster"]["worker"][0]
        self.workers = len(config["cluster"]["worker"]) - len(config["cluster"]["ps"])
        self.name = f"/job:{self.kind}/task:{self.index}"
        self.config = tf.ConfigProto(  # with these filters it talks to the servers and to nobody else
            device_filters=["/job:ps", self.name], intra_op_parallelism_threads=1, inter_op_parallelism_threads=2
        )

    def server(self):
        return tf.train.Server(self.cluster, job_name=self.kind, task_index=self.index, config=self.config)

    def network(self):
        with tf.device(tf.train.replica_device_setter(cluster=self.cluster, worker_device=self.name)):
            return Network()


class Network:
    """Two layers, softmax, plain gradient descent. `over` is how the chief tells the workers that it has evaluated."""

    def __init__(self):
        self.step = tf.train.get_or_create_global_step()
        self.pictures = tf.placeholder(tf.float32, [None, SIDE * SIDE])
        self.labels = tf.placeholder(tf.int64, [None])
        inward = tf.get_variable("inward", [SIDE * SIDE, 64], initializer=tf.random_normal_initializer(0, 0.1, seed=1))
        outward = tf.get_variable("outward", [64, 10], initializer=tf.random_normal_initializer(0, 0.1, seed=2))
        answers = tf.matmul(tf.nn.relu(tf.matmul(self.pictures, inward)), outward)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.labels, logits=answers)
        self.loss = tf.reduce_mean(losses)
        self.accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(answers, 1), self.labels), tf.float32))
        self.train = tf.train.GradientDescentOptimizer(0.5).minimize(self.loss, global_step=self.step)
        self.over = tf.get_variable("over", [], tf.int32, initializer=tf.zeros_initializer(), trainable=False)
        self.end = tf.assign(self.over, 1)

    def fed(self, pictures, labels):
        return {self.pictures: pictures, self.labels: labels}


def serve(task):
    """Hold variables until told to stop; the first server has the chief beside it, and ends as it does."""
    told_to_stop = []
    signal.signal(signal.SIGTERM, lambda *_: told_to_stop.append(True))
    _serving = task.server()  # in threads of its own: it serves for as long as this process lives
    chief = None
    if task.index == 0:
        environment = {**os.environ, "TF_CONFIG": os.environ["TF_CONFIG_CHIEF"]}
        chief = subprocess.Popen([sys.executable, *sys.argv, "--chief"], env=environment)
    while not told_to_stop and (chief is None or chief.poll() is None):
        time.sleep(0.1)
    if chief is not None:
        chief.send_signal(signal.SIGTERM)  # or it has ended by itself, and this does nothing
        sys.exit(chief.wait())
    while somebody_listens(task.chief_address):  # the chief saves what is in this server, too
        time.sleep(0.2)


def lead(task, options):
    """Initialise, or take up what was saved; watch the steps go by; save; evaluate; and wait to be told to go."""
    told_to_stop = []
    signal.signal(signal.SIGTERM, lambda *_: told_to_stop.append(True))
    run = training.attach(save_every_s=None)
    server, network = task.server(), task.network()
    held_out = network.fed(*digits(512, seed=1))
    directory = os.environ.get("STERNA_CHECKPOINT_DIR")
    over = False
    with tf.train.MonitoredTrainingSession(
        master=server.target,
        is_chief=True,
        config=task.config,
        checkpoint_dir=directory and os.path.join(directory, "tensorflow"),
        save_checkpoint_secs=30,
        save_summaries_steps=None,
        log_step_count_steps=None,
    ) as live:  # saves once more when it is closed
        while not (told_to_stop or run.should_stop()):
            step, loss, accuracy = live.run([network.step, network.loss, network.accuracy], held_out)
            if not over:
                print(f"step {step}: loss {loss:.4f}, {accuracy:.1%} right", flush=True)
                if step >= options.steps:
                    print(f"trained for {step} steps: {accuracy:.1%} right", flush=True)
                    live.run(network.end)
                    over = True
            time.sleep(0.5)
    run.finish()


def work(task, options):
    """Train until all workers together have made their steps, and the chief has seen what came of it."""
    run = training.attach(save_every_s=None, metric="accuracy")
    server, network = task.server(), task.network()
    held_out = network.fed(*digits(256, seed=2))
    batches = Batches(options, seed=task.index)
    with tf.train.MonitoredTrainingSession(master=server.target, is_chief=False, config=task.config) as live:
        step, over = live.run([network.step, network.over])
        done = 0
        while not over and not run.should_stop():
            began = time.monotonic()
            if step < options.steps:
                _, step = live.run([network.train, network.step], network.fed(*batches.following()))
                done += 1
                if done % options.evaluate_every == 0 and options.steps - step > 5 * task.workers:  # not near the end
                    run.report(step=int(step), accuracy=float(live.run(network.accuracy, held_out)))
            else:
                over = live.run(network.over)
                time.sleep(0.1)
            time.sleep(max(0.0, began + options.pace - time.monotonic()))
    run.finish()


def train_alone(options):
    """The same steps in one process."""
    network, batches = Network(), Batches(options, seed=0)
    with tf.train.MonitoredTrainingSession() as live:
        for _ in range(options.steps):
            live.run(network.train, network.fed(*batches.following()))
        step, accuracy = live.run([network.step, network.accuracy], network.fed(*digits(512, seed=1)))
    print(f"trained for {step} steps: {accuracy:.1%} right", flush=True)


class Batches:
    """This worker's own walk through the samples: it begins anew wherever the worker does."""

    def __init__(self, options, *, seed):
        self._pictures, self._labels = digits(options.samples)
        order = list(training.Shards(samples=options.samples, batch=options.batch, seed=seed).order(0))
        self._batches = [order[at : at + options.batch] for at in range(0, options.samples, options.batch)]
        self._at = 0

    def following(self):
        self._at += 1
        chosen = self._batches[self._at % len(self._batches)]
        return self._pictures[chosen], self._labels[chosen]


def somebody_listens(address):
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=1.0):
            return True
    except OSError:
        return False


if __name__ == "__main__":
    main()
