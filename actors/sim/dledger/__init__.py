"""The simulation of DLedger groups: what is theirs alone."""
