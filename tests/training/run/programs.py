"""Training programs that the tests run in processes of their own. Small, but real: they train and they use the SDK."""

import hashlib
import os
import random
import resource
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sterna import training
from sterna.protocol import Order, Orders, Status, read_status, write_orders
from tests.waiting import paced


def counting(steps: int, step_s: float = 0.002, settings: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Draws a random number at every step."""
    run = training.attach(**settings)
    drawn: list[float] = []
    run.register(drawn=drawn)
    restored = run.restore()
    for _, _ in run.steps(steps):
        drawn.append(random.random())
        run.report(drawn=drawn[-1])
        paced(step_s)
    run.finish()
    return {
        "restored": None if restored is None else restored.step,
        "step": run.step,
        "stopped": run.should_stop(),
        "drawn": drawn,
    }


def walking(samples: int, batch: int, epochs: int, step_s: float = 0.002) -> dict[str, Any]:
    """Writes down which samples it was given."""
    run = training.attach()
    run.restore()
    given = []
    for epoch, mine in run.steps(training.Shards(samples=samples, batch=batch, seed=7), epochs=epochs):
        given.append((epoch, run.step, run.rank, mine))
        paced(step_s)
    run.finish()
    return {"given": given, "step": run.step, "stopped": run.should_stop()}


def order_myself(order: Order, seq: int = 1) -> None:
    """As the engine would, at exactly this moment."""
    write_orders(os.environ["STERNA_MAILBOX"], Orders(seq=seq, order=order))


def status_now() -> Status:
    status = read_status(os.environ["STERNA_MAILBOX"])
    assert status is not None
    return status


def digest(tensors: Any) -> str:
    return hashlib.sha256(b"".join(tensor.detach().numpy().tobytes() for tensor in tensors)).hexdigest()


def torch_alone(epochs: int, loader_kind: str, stop_at: int | None = None, rng: bool = True) -> dict[str, Any]:
    """Everything that makes resuming exactly hard: dropout, shuffled data, momentum, a schedule, noise in the data."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(1)
    random.seed(1)
    run = training.attach(rng=rng)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(32, 2)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[20, 45], gamma=0.5)
    losses: list[float] = []
    run.register(model=model, optimizer=optimizer, scheduler=scheduler, losses=losses)
    restored = run.restore()
    dataset: Any = Noisy(96)
    loader: Any
    if loader_kind == "shuffled":
        loader = torch.utils.data.DataLoader(dataset, batch_size=4, shuffle=True)
    elif loader_kind == "own generator":
        loader = torch.utils.data.DataLoader(
            dataset, batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(5)
        )
    elif loader_kind == "workers":
        loader = torch.utils.data.DataLoader(
            dataset, batch_size=4, shuffle=True, num_workers=1, multiprocessing_context="fork"
        )
    elif loader_kind == "sampler":
        shards = training.Shards(samples=96, batch=4, seed=5)
        loader = torch.utils.data.DataLoader(dataset, batch_sampler=run.sampler(shards))
    else:
        loader = training.Shards(samples=96, batch=4, seed=5)
    for _, batch in run.steps(loader, epochs=epochs):
        inputs, labels = batch if loader_kind != "shards" else _stacked([dataset[index] for index in batch])
        optimizer.zero_grad()
        loss: Any = torch.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
        run.report(loss=loss.item())
        if len(losses) == stop_at:
            order_myself(Order.STOP)
    run.finish()
    return {
        "restored": None if restored is None else restored.step,
        "step": run.step,
        "stopped": run.should_stop(),
        "hash": digest(model.state_dict().values()),
        "losses": len(losses),
    }


def torch_ddp(steps: int, meeting_file: str, step_s: float = 0.0) -> dict[str, Any]:
    """Data parallel over gloo. What ranks end with must be the same, bit for bit."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    run = training.attach()
    torch.manual_seed(run.rank)  # on purpose: replicas that restored different things would stay different
    model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1))
    restored = run.restore()  # before registering, and before the process group exists
    dist.init_process_group("gloo", init_method=f"file://{meeting_file}", rank=run.rank, world_size=run.world_size)
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.05, momentum=0.9)
    run.register(model=parallel, optimizer=optimizer)
    begins_with = digest(model.state_dict().values())
    for _, batch in run.steps(training.Shards(samples=64, batch=8, seed=3), epochs=steps):
        inputs = torch.tensor([[index, index % 3, index % 5, 1.0] for index in batch]) / 64
        optimizer.zero_grad()
        parallel(inputs).square().mean().backward()
        optimizer.step()
        paced(step_s)
    dist.destroy_process_group()
    run.finish()
    return {
        "restored": None if restored is None else restored.step,
        "step": run.step,
        "stopped": run.should_stop(),
        "begins_with": begins_with,
        "hash": digest(model.state_dict().values()),
    }


def own_loop(steps: int) -> dict[str, Any]:
    """No steps() loop: the program asks at the end of each step of its own."""
    run = training.attach()
    state = {"count": 0}
    run.register(state=state)
    run.restore()
    while not run.should_stop() and state["count"] < steps:
        state["count"] += 1
        paced(0.005)
    run.finish()
    return {"count": state["count"], "step": run.step, "stopped": run.should_stop()}


def committing() -> dict[str, Any]:
    """Commits in the middle of a loop, which means at the end of that step, and once more after it."""
    run = training.attach(save_every_s=None)
    state = {"count": 0}
    run.register(state=state)
    restored = run.restore()
    for _, number in run.steps(20):
        if number == 6 and run.rank == run.world_size - 1:  # one rank asks, all save
            run.commit()
        state["count"] += 1
        paced(0.002)
    state["count"] += 1000
    run.commit()
    run.finish()
    return {"restored": None if restored is None else restored.step, "count": state["count"]}


def without_room(steps: int, fails_from: int) -> dict[str, Any]:
    """From some step on, no file may grow beyond a few hundred bytes more than a status needs."""
    run = training.attach(save_every_s=(0.01, 0.02))
    state = {"much": bytes(20_000), "count": 0}
    run.register(state=state)
    restored = run.restore()
    for _, number in run.steps(steps):
        if number == fails_from:
            resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, resource.RLIM_INFINITY))
        state["count"] = number + 1
        paced(0.005)
    run.finish()
    return {"restored": None if restored is None else restored.step, "step": run.step, "stopped": run.should_stop()}


def with_jumping_clock(steps: int) -> dict[str, Any]:
    """The wall clock leaps back and forth by up to ten minutes whenever it is read."""
    chance = random.Random(0)
    real = time.time
    time.time = lambda: real() + chance.uniform(-600, 600)
    time.time_ns = lambda: int(time.time() * 1e9)
    return counting(steps, 0.002, {"save_every_s": (0.05, 0.1)})


def with_a_broken_callable() -> dict[str, Any]:
    """What it registers cannot always be saved."""
    run = training.attach(save_every_s=None)
    state = {"count": 1}
    run.register("state", (lambda: {"inverse": 1 / state["count"]}, state.update))
    run.restore()
    problems = []
    for _, number in run.steps(6):
        problems.append(status_now().problem)  # after the commit of the step before
        state["count"] = 0 if number == 2 else 1
        run.commit()
        paced(0.05)
    run.finish()
    return {"step": run.step, "problems": problems}


class Noisy:
    """A dataset that draws from two global generators for every sample."""

    def __init__(self, samples: int) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int) -> Any:
        import torch

        inputs = torch.arange(8.0) * (index % 7) / 8 + torch.randn(8) * 0.01 + random.random() * 0.01
        return inputs, index % 2


def _stacked(items: list[Any]) -> Any:
    import torch

    return torch.stack([inputs for inputs, _ in items]), torch.tensor([label for _, label in items])
