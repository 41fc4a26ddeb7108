"""Train a small network on made-up digits with NumPy alone: one process or many, by hand or under Sterna.

    python examples/numpy_train.py --epochs 3            by hand: Sterna's calls politely do nothing
    sterna submit -f examples/numpy.yaml                 under Sterna: it may be resized and moved at any step

Several workers share each batch and add up their gradients over a socket, so that the result depends on the order of
the samples alone and not on how many workers there were. What Sterna needs are the lines with `run`.
"""

import argparse
import hashlib
import os
import socket
import time

import numpy as np
from digits import SIDE, digits

from sterna import training

HIDDEN = 64


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--samples", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=64, help="samples for one step, all workers together")
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--pace",
        type=float,
        default=0.0,
        help="seconds that one worker needs for a step at least; several share it. Stands in for a model that keeps "
        "an accelerator busy, so that many workers can be shown on few cores",
    )
    options = parser.parse_args()

    run = training.attach()
    pictures, labels = digits(options.samples, seed=options.seed)
    network = fresh_network(options.seed)
    momentum = {name: np.zeros_like(weights) for name, weights in network.items()}
    run.register(network=network, momentum=momentum)
    run.restore()

    order = training.Shards(samples=options.samples, batch=options.batch, seed=options.seed)
    with Ring(run.rank, run.world_size) as ring:
        for epoch, batch in run.steps(order, epochs=options.epochs):
            began = time.monotonic()
            loss, right, gradients = learn(network, pictures[batch], labels[batch])
            loss, right, seen, gradients = ring.add_up(loss, right, len(batch), gradients)
            for name, weights in network.items():
                momentum[name] *= 0.9
                momentum[name] += gradients[name] / seen
                weights -= options.rate * momentum[name]
            run.report(loss=loss / seen, accuracy=right / seen, epoch=epoch)
            if options.pace:
                time.sleep(max(0.0, began + options.pace / run.world_size - time.monotonic()))
    if run.should_stop():  # the loop ended early: the state is committed, and another process goes on from it
        return
    if run.rank == 0:
        _, right, _ = learn(network, pictures, labels)
        print(
            f"trained for {options.epochs} epochs: {right / len(labels):.1%} right, hash {hash_of(network)}", flush=True
        )
    run.finish()


def fresh_network(seed):
    chance = np.random.default_rng(seed)
    return {
        "inward": chance.normal(0, 0.1, (SIDE * SIDE, HIDDEN)),
        "hidden": np.zeros(HIDDEN),
        "outward": chance.normal(0, 0.1, (HIDDEN, 10)),
        "answer": np.zeros(10),
    }


def learn(network, pictures, labels):
    """Loss and right answers in sum, and the gradients in sum: sums can be added over workers."""
    hidden = np.maximum(0.0, pictures @ network["inward"] + network["hidden"])
    scores = hidden @ network["outward"] + network["answer"]
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores)
    chances /= chances.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -np.log(chances[rows, labels] + 1e-12).sum()
    right = int((chances.argmax(axis=1) == labels).sum())
    chances[rows, labels] -= 1.0
    inner = (chances @ network["outward"].T) * (hidden > 0)
    gradients = {
        "inward": pictures.T @ inner,
        "hidden": inner.sum(axis=0),
        "outward": hidden.T @ chances,
        "answer": chances.sum(axis=0),
    }
    return loss, right, gradients


def hash_of(network):
    """Rounded, because adding gradients up in another order changes the last digits."""
    digest = hashlib.sha256()
    for name in sorted(network):
        digest.update(np.round(network[name], 6).tobytes())
    return digest.hexdigest()[:16]


class Ring:
    """Adds numbers up over all workers: worker 0 collects and hands the sum back. Enough for a handful of workers."""

    def __init__(self, rank, world_size):
        self._rank, self._world_size = rank, world_size
        self._peers = []

    def __enter__(self):
        address = (os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "29400")))
        if self._world_size > 1 and self._rank == 0:
            # in a cluster the name of this very worker may not yet be known to its own name server
            here = address if address[0] == "127.0.0.1" else ("", address[1])
            with socket.create_server(here) as server:
                server.settimeout(60)
                self._peers = [server.accept()[0] for _ in range(self._world_size - 1)]
        elif self._world_size > 1:
            self._peers = [_connected(address)]
        for peer in self._peers:
            peer.settimeout(60)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self

    def __exit__(self, *_):
        for peer in self._peers:
            peer.close()

    def add_up(self, loss, right, seen, gradients):
        if not self._peers:
            return loss, right, seen, gradients
        mine = np.concatenate([[loss, right, seen], *(gradients[name].ravel() for name in sorted(gradients))])
        if self._rank == 0:
            for peer in self._peers:
                mine = mine + _received(peer, mine.nbytes)
            for peer in self._peers:
                peer.sendall(mine.tobytes())
        else:
            self._peers[0].sendall(mine.tobytes())
            mine = _received(self._peers[0], mine.nbytes)
        summed, at = {}, 3
        for name in sorted(gradients):
            size = gradients[name].size
            summed[name] = mine[at : at + size].reshape(gradients[name].shape)
            at += size
        return float(mine[0]), int(mine[1]), int(mine[2]), summed


def _connected(address):
    until = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection(address, timeout=5)
        except OSError:  # worker 0 is not there yet
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def _received(peer, count):
    parts, left = [], count
    while left:
        part = peer.recv(min(left, 1 << 20))
        if not part:
            raise ConnectionError("another worker has gone")
        parts.append(part)
        left -= len(part)
    return np.frombuffer(b"".join(parts))


if __name__ == "__main__":
    main()
