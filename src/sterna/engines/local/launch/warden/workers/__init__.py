"""One process in the warden's care: its program, output, hooks and limits, and what it leaves behind when it ends.

Which processes there are, who is told of their ends and how those get to disk is one floor up.
"""
