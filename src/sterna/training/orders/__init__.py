"""What the engine asks of a worker, and what the worker says of itself: notices, demands, stops, the status file."""
