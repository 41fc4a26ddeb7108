"""Let people in. A command parses, asks, renders; anything about scheduling belongs further in."""
