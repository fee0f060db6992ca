"""What can happen to a classic group, besides what can happen to any node; `faults` lists it."""
