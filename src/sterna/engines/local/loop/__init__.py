"""What runs all the time: cycles of the core, one runner for each job, and effects carried out."""
