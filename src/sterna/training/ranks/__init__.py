"""How the ranks of one job find each other, load the same checkpoint and agree on the step at which all of them save.

What is saved is `state/` and `checkpoint/`.
"""
