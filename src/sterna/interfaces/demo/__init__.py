"""`sterna demo`: a short play with real training on the local engine, and a report of what was seen.

A guest of the public interface: it starts `sterna up` as a user does and asks it over its API.
"""
