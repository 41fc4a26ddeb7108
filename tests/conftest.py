"""What all tests rely on, whoever started them."""

import signal

pytest_plugins = ["tests.cluster.fixtures"]

# A shell that runs tests in the background lets them ignore SIGINT, and whatever they start would ignore it too.
signal.signal(signal.SIGINT, signal.default_int_handler)
