"""What is possible in a small world, found by exact search: the answers against which decisions are held."""
