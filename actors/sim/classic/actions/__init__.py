"""What can happen to a classic group besides what happens to any node; `faults` lists it."""
