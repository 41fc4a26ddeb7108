"""What becomes of one job, whatever engine it is in."""
