"""What runs while the operator leads: cycles of the core, one worker for each job, and effects carried out.

Deciding what is due is `reconcile/`; starting and ending the operator is `process/`.
"""
