"""What `peers/run` is made of."""
