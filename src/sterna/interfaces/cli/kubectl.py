"""`kubectl sterna`: the same commands, asked of a cluster. kubectl runs any program on the path that is called so."""

from sterna.interfaces.cli.engine_choice import Engine
from sterna.interfaces.cli.main import run


def main() -> None:
    """The console script `kubectl-sterna`."""
    run("kubectl-sterna", engine=Engine.KUBERNETES)


if __name__ == "__main__":
    main()
