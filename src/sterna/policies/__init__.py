"""How many workers should each job hold? `Snapshot -> Target`, one policy a file, each a pure function.

Where the workers go is `placement`; neither knows the other.
"""
