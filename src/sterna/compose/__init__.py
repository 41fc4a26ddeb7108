"""The one place where the parts are wired together: nothing else constructs an engine, an operator or a simulation.

Requests in, answers out; nothing about options or screens. Nothing is imported here, and each module imports one
engine's parts at most: a command waits for what it uses and for nothing else.
"""
