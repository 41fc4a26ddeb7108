"""Telling others than the engine how training goes: the node's monitor, and Kubeflow's Trainer where it asks for it.

`Reporter` is what `run.report()` hands its numbers to. It only puts them down; threads of their own send them, over one
connection each that is kept, and nothing that goes wrong there is ever felt by the program. Standard library only.
"""

from sterna.training.reporting.reporter import Reporter, reporter_from

__all__ = ["Reporter", "reporter_from"]
