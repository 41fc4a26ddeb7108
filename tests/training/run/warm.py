"""Imported by the server that test processes are forked from: everything slow is done here once, and no thread started.

torch imports much of itself only when a first optimizer is made.
"""

import contextlib

with contextlib.suppress(ImportError):
    import torch
    import torch.distributed
    import torch.nn.parallel

    torch.set_num_threads(1)
    _model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.5))
    _optimizer = torch.optim.SGD(_model.parameters(), lr=0.1, momentum=0.9)
    torch.optim.lr_scheduler.MultiStepLR(_optimizer, milestones=[1])
    _model(torch.ones(1, 2)).sum().backward()
    _optimizer.step()
