"""The order of samples, and the sources that `steps()` walks through."""
