"""The parts of `peers/run`."""
