"""A real training process for the tests of full disks: saves a state of the given size every half second.

python saving_program.py STEPS STATE_BYTES
"""

import os
import sys
import tempfile
import time

from sterna.training import attach

tempfile.tempdir = os.environ.get("TMPDIR")  # even if it is full, where Python would look for another one
with attach(save_every_s=(0.3, 0.5)) as run:
    weights = {"w": bytes(int(sys.argv[2]))}
    run.register(weights=weights)
    run.restore()
    for _, _step in run.steps(int(sys.argv[1])):
        time.sleep(0.02)
