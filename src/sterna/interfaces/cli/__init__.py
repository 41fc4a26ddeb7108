"""The `sterna` command. A command parses, asks and renders; every `if` about scheduling lives further in.

One file a command, named as the command is, beside the few that they share. Nothing heavy is imported until a command
runs: `sterna --help` must answer at once.
"""
