"""How many workers should each job hold? `Snapshot -> Target`, one file a policy, each a pure function.

Where the workers go is `placement`; neither knows the other.
"""
