"""How jobs train: what programs say, reports of monitors, evaluations, and the monitor inside the engine."""
