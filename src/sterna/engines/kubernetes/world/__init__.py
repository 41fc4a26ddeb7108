"""Jobs, nodes and guests of the cluster, worked out from the cache piece by piece, up to the snapshot of a decision.

Nothing here writes to the cluster or decides anything.
"""
