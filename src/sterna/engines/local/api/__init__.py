"""The engine as its users ask it: requests, records, explanations and logs."""
