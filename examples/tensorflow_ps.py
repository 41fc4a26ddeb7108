"""Train on made-up digits with TensorFlow parameter servers: workers come, go and move, and nobody else notices.

    sterna submit -f examples/tensorflow.yaml

All state (variables and the global step) lives on the parameter servers; a worker only pulls weights and pushes
gradients, so one that is stopped loses its step in flight and no more. The chief initialises, saves now and then and
when it is told to stop, and evaluates at the end. Who is who comes from TF_CONFIG, which never changes over the job's
life, however many workers there are. The graph style of TensorFlow 1 is used because sessions with device filters are
what lets workers ignore each other.
"""

import argparse
import json
import os
import signal
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow.compat.v1 as tf
from digits import SIDE, digits

from sterna import training


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000, help="of all workers together")
    parser.add_argument("--samples", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--pace", type=float, default=0.0, help="seconds that a worker's step takes at least")
    options = parser.parse_args()

    tf.disable_v2_behavior()
    tf.logging.set_verbosity(tf.logging.ERROR)
    config = json.loads(os.environ["TF_CONFIG"])
    cluster, task = tf.train.ClusterSpec(config["cluster"]), config["task"]
    me = f"/job:{task['type']}/task:{task['index']}"
    session = tf.ConfigProto(  # with these filters a worker talks to the parameter servers and to nobody else
        device_filters=["/job:ps", me], intra_op_parallelism_threads=1, inter_op_parallelism_threads=2
    )
    server = tf.train.Server(cluster, job_name=task["type"], task_index=task["index"], config=session)
    if task["type"] == "ps":
        server.join()
    run = training.attach()
    pictures, labels = digits(options.samples)
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=me)):
        graph = Network()
    if task["type"] in ("chief", "master"):
        lead(run, server, session, graph, pictures, labels, options)
    else:
        work(run, server, session, graph, pictures, labels, options, seed=task["index"])


class Network:
    """Two layers, softmax, plain gradient descent; `train` also counts the global step."""

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
        self.train = tf.train.GradientDescentOptimizer(0.1).minimize(self.loss, global_step=self.step)


def work(run, server, session, graph, pictures, labels, options, *, seed):
    """Train until all workers together have made their steps."""
    batches = Batches(options.samples, options.batch, seed)
    with tf.train.MonitoredTrainingSession(master=server.target, is_chief=False, config=session) as live:
        step = 0
        while step < options.steps and not run.should_stop():
            began = time.monotonic()
            chosen = batches.following()
            fed = {graph.pictures: pictures[chosen], graph.labels: labels[chosen]}
            _, step, loss = live.run([graph.train, graph.step, graph.loss], fed)
            run.report(step=int(step), loss=float(loss))
            time.sleep(max(0.0, began + options.pace - time.monotonic()))
    run.finish()


def lead(run, server, session, graph, pictures, labels, options):
    """Initialise (or take up what was saved), watch the steps go by, save, and evaluate at the end."""
    told_to_stop = []
    signal.signal(signal.SIGTERM, lambda *_: told_to_stop.append(True))
    fed = {graph.pictures: pictures, graph.labels: labels}
    directory = os.environ.get("STERNA_CHECKPOINT_DIR")
    with tf.train.MonitoredTrainingSession(
        master=server.target,
        is_chief=True,
        config=session,
        checkpoint_dir=directory and os.path.join(directory, "tensorflow"),
        save_checkpoint_secs=15,
        save_summaries_steps=None,
        log_step_count_steps=None,
    ) as live:  # saves once more when it is closed
        while True:
            step, loss, accuracy = live.run([graph.step, graph.loss, graph.accuracy], fed)
            run.report(step=int(step), loss=float(loss), accuracy=float(accuracy))
            print(f"step {step}: loss {loss:.4f}, {accuracy:.1%} right", flush=True)
            if step >= options.steps:
                break
            if told_to_stop or run.should_stop():
                return
            time.sleep(0.5)
    print(f"trained for {step} steps: {accuracy:.1%} right", flush=True)
    run.finish()


class Batches:
    """This worker's own walk through the samples."""

    def __init__(self, samples, batch, seed):
        order = list(training.Shards(samples=samples, batch=batch, seed=seed).order(0))
        self._batches = [order[at : at + batch] for at in range(0, samples, batch)]
        self._at = 0

    def following(self):
        self._at += 1
        return self._batches[self._at % len(self._batches)]


if __name__ == "__main__":
    main()
