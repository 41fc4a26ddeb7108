"""Real training with PyTorch on CPU, small and the same each time: what a cluster is tried with.

    python torch_trainer.py [--steps 400] [--step-s 0.05] [--trace FILE] [--seed 0]
    torchrun ... torch_trainer.py

Data parallel over gloo where there are several ranks (MASTER_ADDR and MASTER_PORT, or torchrun's own). Model,
optimizer, schedule and the position in the data are kept; a run of as many ranks that was stopped and resumed ends with
the same bits as one that was not. Each step is printed and appended to the trace, as `toy_trainer` does:

    step=17 rank=0 world=3 incarnation=2 host=job-worker-0 pid=7
"""

import argparse
import hashlib
import os
import socket
import time

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from sterna import training

SAMPLES, BATCH = 1024, 32


def main() -> None:
    options = arguments(__doc__)
    run = training.attach(save_every_s=(2.0, 600.0))
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    run.register(model=model, optimizer=optimizer, schedule=schedule)
    restored = run.restore()
    if run.world_size > 1:
        distributed.init_process_group("gloo", rank=run.rank, world_size=run.world_size)
    trained = DistributedDataParallel(model) if run.world_size > 1 else model
    inputs = torch.randn(SAMPLES, 16, generator=torch.Generator().manual_seed(options.seed))
    targets = inputs[:, :1] * inputs[:, 1:2]
    trace = Trace(run, options.trace)
    trace.say(f"began={0 if restored is None else restored.step}")
    epochs = -(-options.steps * BATCH // SAMPLES)
    for _, batch in run.steps(training.Shards(samples=SAMPLES, batch=BATCH, seed=options.seed), epochs=epochs):
        began_s = time.monotonic()
        loss = nn.functional.mse_loss(trained(inputs[batch]), targets[batch])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        trace.step(run.step + 1)
        run.report(loss=loss.item())
        time.sleep(max(0.0, began_s + options.step_s - time.monotonic()))
    if run.should_stop():
        trace.say(f"stopped={run.step}")
    else:
        trace.say(f"finished={run.step} hash={hash_of(model)}")
        run.finish()
    if distributed.is_initialized():
        distributed.destroy_process_group()


def hash_of(model: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.numpy().tobytes())
    return digest.hexdigest()[:16]


def arguments(about: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=384, help=f"rounded up to whole epochs of {SAMPLES // BATCH}")
    parser.add_argument("--step-s", type=float, default=0.05, help="seconds that a step takes at least")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trace", help="file for one line a step; by default trace.txt in the checkpoint directory")
    return parser.parse_args()


class Trace:
    """Lines for people and tests, on the console and in a file. One write a line, so that ranks do not mix theirs."""

    def __init__(self, run: training.Run, path: str | None) -> None:
        directory = os.environ.get("STERNA_CHECKPOINT_DIR")
        path = path or (os.path.join(directory, "trace.txt") if directory else None)
        self._who = f"rank={run.rank} world={run.world_size} incarnation={run.incarnation}"
        self._who += f" host={socket.gethostname()} pid={os.getpid()}"
        self._file = open(path, "ab", buffering=0) if path else None  # noqa: SIM115 (open as long as the process)

    def step(self, number: int) -> None:
        self.say(f"step={number}")

    def say(self, what: str) -> None:
        line = f"{what} {self._who}"
        print(line, flush=True)
        if self._file is not None:
            self._file.write(f"{line}\n".encode())


if __name__ == "__main__":
    main()
