"""Make decisions true. One loop serves every engine; an engine reports facts and carries out actions, never chooses."""
