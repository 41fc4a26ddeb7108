"""What was seen, decided and done, in a form that can be replayed."""
