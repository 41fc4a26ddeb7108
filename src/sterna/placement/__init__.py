"""On which nodes? `Snapshot, Target -> Layout`, one file a placement, and one a step that placements have in common.

How many workers is `policies`; neither knows the other.
"""
