"""Who proposes moves beyond what a placement does, and whether they are worth it. Pure, like every placement.

`registry.py` lists the rebalancers and joins them, `scene.py` is what they look at, `cost.py` weighs a move, and
`budget.py` keeps jobs from being moved too often.
"""
