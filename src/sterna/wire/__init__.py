"""Shapes at the edges: snapshot files, trace files, configuration. Parsed once, converted once, and no further in."""
