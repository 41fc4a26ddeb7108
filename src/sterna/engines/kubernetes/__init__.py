"""Jobs on a Kubernetes cluster: what the API server holds is the state, and this package makes decisions true there."""
