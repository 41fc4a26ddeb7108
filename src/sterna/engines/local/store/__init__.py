"""State that survives the engine: one SQLite file, its tables and rows, and the copy in memory written with it."""
