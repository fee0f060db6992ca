"""A user's state machine over the committed log, and its snapshots: `state_machine_caller`."""
