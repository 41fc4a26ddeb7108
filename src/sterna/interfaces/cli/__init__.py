"""The `sterna` command. A command parses, asks and renders; every `if` about scheduling lives further in.

Nothing heavy is imported until a command runs: `sterna --help` must answer at once.
"""
