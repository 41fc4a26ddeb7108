"""Train a small convolutional network with PyTorch's DistributedDataParallel: one process or many, CPU or GPU.

    python examples/pytorch_ddp.py --epochs 2                      by hand, one process
    torchrun --nproc-per-node 2 examples/pytorch_ddp.py            by hand, two
    sterna submit -f examples/pytorch.yaml                         under Sterna: stopped and started at another size
    sterna submit -f examples/torchrun.yaml                        under Sterna: torchrun's members come and go

What Sterna needs are the lines with `run`: model, optimizer and schedule are registered and restored; the order of the
samples is declared once, so a change of size skips none and repeats none.
"""

import argparse
import hashlib
import os
import time

import torch
from digits import SIDE, digits
from torch import distributed, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from sterna import training


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--samples", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=64, help="samples for one step, all workers together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pace", type=float, default=0.0, help="seconds for a step at least with one worker")
    options = parser.parse_args()

    run = training.attach()
    torch.manual_seed(options.seed)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    pictures, labels = (torch.from_numpy(part) for part in digits(options.samples, seed=options.seed))
    pictures = pictures.reshape(-1, 1, SIDE, SIDE)
    gpu = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    device = torch.device(gpu if torch.cuda.is_available() else "cpu")
    if run.world_size > 1:
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")

    model = network().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    steps = options.epochs * -(-options.samples // options.batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    run.register(model=model, optimizer=optimizer, schedule=schedule)
    run.restore()
    trained = DistributedDataParallel(model) if run.world_size > 1 else model

    order = training.Shards(samples=options.samples, batch=options.batch, seed=options.seed)
    for _, batch in run.steps(order, epochs=options.epochs):
        began = time.monotonic()
        answers = trained(pictures[batch].to(device))
        loss = cross_entropy(answers, labels[batch].to(device))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        run.report(loss=loss.item(), accuracy=(answers.argmax(1).cpu() == labels[batch]).float().mean().item())
        if options.pace:
            time.sleep(max(0.0, began + options.pace / run.world_size - time.monotonic()))
    if not run.should_stop():  # otherwise the state is committed, and other processes go on from it
        if run.rank == 0:
            print(f"trained for {options.epochs} epochs: {score(model, pictures, labels):.1%} right", flush=True)
            print(f"hash {hash_of(model)}", flush=True)
        run.finish()
    if distributed.is_initialized():
        distributed.destroy_process_group()


def network():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(16 * 4 * 4, 10),
    )


@torch.no_grad()
def score(model, pictures, labels):
    model.eval()
    return (model(pictures.to(next(model.parameters()).device)).argmax(1).cpu() == labels).float().mean().item()


def hash_of(model):
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    main()
