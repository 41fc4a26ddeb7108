"""A script for torchrun: data parallel training that carries on whoever joins or leaves. Not a test itself."""

import json
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from sterna import training
from tests.training.run.programs import digest
from tests.waiting import paced


def main() -> None:
    torch.set_num_threads(1)
    run = training.attach()
    torch.manual_seed(os.getpid())
    model = torch.nn.Linear(3, 1)
    run.register(model=model)
    restored = run.restore()
    dist.init_process_group("gloo")
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.01, momentum=0.9)
    run.register(optimizer=optimizer)
    with Path(os.environ["STERNA_MAILBOX"], "launches").open("a") as launches:
        begins = {
            "world_size": run.world_size,
            "restored": None if restored is None else restored.step,
            "hash": digest(model.state_dict().values()),
        }
        launches.write(json.dumps(begins) + "\n")
    for _, batch in run.steps(training.Shards(samples=60, batch=6), epochs=None):
        inputs = torch.tensor([[float(index), index % 3, 1.0] for index in batch]) / 60
        optimizer.zero_grad()
        parallel(inputs).square().mean().backward()
        optimizer.step()
        paced(0.01)
    dist.destroy_process_group()
    run.finish()


main()
