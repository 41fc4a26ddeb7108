"""Launches of several gloo ranks with skewed starts, under the migrator. Run as a script by `test_ranks.py`.

    python ranks_of_a_launch.py DIRECTORY '{"ranks": 4, "skew_s": [0, 0.3, 0, 0.1], "steps": 3, ...}' ...

One launch after the other; each prints a line of JSON: what every rank found, trained and ended with. torch is imported
once; ranks are forks.
"""

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed

from sterna.training.errors import TrainingError
from sterna.training.migrator.shim import Migrator
from tests.waiting import paced


def main(directory: str, *launches: str) -> None:
    torch.set_num_threads(1)
    torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])  # imports much, which is then not done by every rank
    for number, text in enumerate(launches):
        plan = json.loads(text)
        children = []
        for rank in range(plan["ranks"]):
            told, tell = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(told)
                os.write(tell, json.dumps(run(Path(directory), number, rank, plan)).encode())
                os._exit(0)
            os.close(tell)
            children.append((child, told))
        answers = []
        for child, told in children:
            with os.fdopen(told) as answer:
                answers.append(json.loads(answer.read() or "null"))
            os.waitpid(child, 0)
        sys.stdout.write(json.dumps(answers) + "\n")
        sys.stdout.flush()


def run(directory: Path, number: int, rank: int, plan: dict[str, Any]) -> dict[str, Any]:
    if plan.get("dies") == rank:
        os._exit(1)
    paced(plan["skew_s"][rank])
    store = f"file://{directory}/store-{number}"
    if not plan.get("alone"):
        torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=plan["ranks"])
    torch.manual_seed(rank)
    model: Any = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    if not plan.get("alone"):
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    metrics = {"step": 0}
    migrator = Migrator(
        environment={
            "MIGRATION_CKPT_PATH": str(directory / "migration.pth"),
            "MIGRATION_SIGNAL_PATH": str(directory / "signal"),
            "MIGRATION_MEET_S": str(plan.get("meet_s", 60)),
            **({"RANK": str(rank), "WORLD_SIZE": str(plan["ranks"])} if plan.get("alone") else {}),
        }
    )
    paced(plan["skew_s"][-1 - rank])  # the last to come is not the last to load
    try:
        resumed = begin(plan["api"], migrator, rank, model, optimizer, metrics)
    except TrainingError as error:
        return {"failed": type(error).__name__, "why": str(error)}
    began_at, began_with = metrics["step"], digest(model)
    for _ in range(plan["steps"]):
        optimizer.zero_grad()
        batch = torch.randn(8, 4, generator=torch.Generator().manual_seed(metrics["step"]))
        model(batch).square().sum().backward()
        optimizer.step()
        metrics["step"] += 1
    migrator.save_ckpt()
    if not plan.get("alone"):
        torch.distributed.barrier()
    return {
        "resumed": resumed,
        "began_at": began_at,
        "began_with": began_with,
        "ended_at": metrics["step"],
        "ended_with": digest(model),
    }


def begin(api: str, migrator: Migrator, rank: int, model: Any, optimizer: Any, metrics: dict[str, int]) -> bool:
    if api == "b":
        for variable in (model, optimizer, metrics):
            migrator.variable(variable)
        return metrics["step"] > 0
    migrator.register("model", model)
    migrator.register("optimizer", optimizer)
    migrator.register("metrics", metrics)
    if rank == 0:
        migrator.listening()
    if migrator.resume:
        migrator.load_ckpt()
        return True
    return False


def digest(model: Any) -> str:
    bare = model.module if hasattr(model, "module") else model
    total = hashlib.sha256()
    for name, tensor in bare.state_dict().items():
        total.update(name.encode() + tensor.detach().numpy().tobytes())
    return total.hexdigest()


if __name__ == "__main__":
    main(*sys.argv[1:])
