"""Actions that only DLedger groups know, beside those of any node; `faults` lists them."""
