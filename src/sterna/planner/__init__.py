"""What must change, in what order, and why? `Snapshot -> Decision`, by way of a policy and a placement."""
