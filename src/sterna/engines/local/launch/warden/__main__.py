"""`python -m sterna.engines.local.launch.warden HOME [SETTINGS]`: run the warden of HOME in the background.

Returns once it listens. The engine runs this file by its path, with neither site-packages nor environment.
"""

import os.path
import sys

if __name__ == "__main__":
    if not __package__:  # run by path: five directories up lies what holds the package
        sys.path.insert(0, os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 5)))
    from sterna.engines.local.launch.warden.serve import main

    sys.exit(main(sys.argv[1:]))
