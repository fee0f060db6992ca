"""Frames of a node's API socket. `frames` has all of them in its tables."""
