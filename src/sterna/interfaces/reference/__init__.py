"""Pages of the documentation that are written from the code, so that they cannot say something else than it does.

`python -m sterna.interfaces.reference docs` rewrites them; a test compares them with what is checked in.
"""
