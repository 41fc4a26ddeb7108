"""The API server as this engine asks it: the port, the client behind it, and the partial shapes of objects.

What is known of the cluster is kept in `cache/`; nothing here remembers an object.
"""
