"""On which nodes? `Snapshot, Target -> Layout`. How many workers is `policies`; neither knows the other."""
