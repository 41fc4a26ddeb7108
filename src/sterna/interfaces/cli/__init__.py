"""The `sterna` command."""
