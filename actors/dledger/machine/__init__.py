"""A user's state machine over the committed log, and its snapshots. See `state_machine_caller`."""
