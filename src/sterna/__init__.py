"""Sterna: an elastic, migration-aware scheduler for deep-learning training.

Importing this package imports nothing else: training programs, the scheduler and tools each load only their part.
"""

__version__ = "0.1.0"
