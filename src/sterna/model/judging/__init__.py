"""Is a job's evaluation value still growing? A fold over what it reports: with every value, a new `Judged`.

Pure: time comes with the values, nothing is read from a clock. What a snapshot carries of the answer is
`model/growth.py`; whom to move because of it is for rebalancers.
"""

from sterna.model.judging.judge import Judge, Merge, Mode, Rule
from sterna.model.judging.judged import Judged

__all__ = ["Judge", "Judged", "Merge", "Mode", "Rule"]
