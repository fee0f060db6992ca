"""Simulated worlds: our real actors and stores on virtual time, with faults drawn from one seed."""
