"""Objects as they are created: pods, services, host lists, from a job's own template. Pure.

When one is due is decided in `reconcile/`.
"""
