"""One process in the warden's care: its program, output, hooks and limits, and what it leaves behind when it ends.

Which processes there are, which clients are told of their ends and how those get to disk is in the package above.
"""
