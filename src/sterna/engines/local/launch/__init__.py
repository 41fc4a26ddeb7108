"""From a worker's row to a process: what is launched, and the warden that is its parent."""
