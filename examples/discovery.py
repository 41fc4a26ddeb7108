"""Train with as many processes as the cluster offers at the moment, in the way of elastic Horovod.

    sterna submit -f examples/mpi.yaml

The launcher asks `discover_hosts.sh` who is there, before each step and at no cost to training: Sterna keeps the script
to the workers that are ready. When the answer changes, the launcher goes on with more or fewer processes; its model
stays where it is. Horovod does the same with processes on other hosts; here they all run on this machine, because that
is what the script says of a local engine.
"""

import argparse
import subprocess
import time
from multiprocessing import Pool

import numpy as np
from digits import digits
from numpy_train import fresh_network, hash_of, learn

from sterna import training


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host-discovery-script", required=True)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--pace", type=float, default=0.0, help="seconds for a step at least with one process")
    options = parser.parse_args()

    run = training.attach()
    pictures, labels = digits(options.samples)
    network = fresh_network(seed=0)
    run.register(network=network)
    run.restore()
    crew = Crew(options.host_discovery_script, pictures, labels)
    for _, batch in run.steps(training.Shards(samples=options.samples, batch=64), epochs=options.epochs):
        began = time.monotonic()
        loss, right, gradients = crew.learn(network, batch)
        for name, weights in network.items():
            weights -= 0.1 * gradients[name] / len(batch)
        run.report(loss=loss / len(batch), accuracy=right / len(batch), processes=crew.size)
        time.sleep(max(0.0, began + options.pace / crew.size - time.monotonic()))
    crew.close()
    if not run.should_stop():
        print(f"trained for {options.epochs} epochs, hash {hash_of(network)}", flush=True)
        run.finish()


class Crew:
    """Processes that share a batch: as many as the script counts slots, and at least one."""

    def __init__(self, script, pictures, labels):
        self._script, self._data = script, (pictures, labels)
        self._pool, self.size = None, 0

    def learn(self, network, batch):
        self._follow(self._slots())
        parts = [(network, part) for part in np.array_split(batch, self.size) if len(part)]
        answers = self._pool.starmap(_learn_part, parts)
        gradients = {name: sum(found[2][name] for found in answers) for name in network}
        return sum(found[0] for found in answers), sum(found[1] for found in answers), gradients

    def close(self):
        if self._pool is not None:
            self._pool.terminate()
            self._pool.join()

    def _follow(self, size):
        if size != self.size:
            self.close()
            self._pool, self.size = Pool(size, initializer=_remember, initargs=self._data), size
            print(f"processes {size}", flush=True)

    def _slots(self):
        """The sum over lines of `host:slots`. Nobody there yet: one process is enough to begin with."""
        said = subprocess.run([self._script], capture_output=True, text=True, check=True).stdout
        return max(1, sum(int(line.rpartition(":")[2]) for line in said.split()))


_data = None


def _remember(pictures, labels):
    global _data
    _data = pictures, labels


def _learn_part(network, part):
    pictures, labels = _data
    return learn(network, pictures[part], labels[part])


if __name__ == "__main__":
    main()
