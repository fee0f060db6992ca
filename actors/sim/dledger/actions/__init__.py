"""What can happen to DLedger groups besides what happens to any node; `faults` lists it."""
