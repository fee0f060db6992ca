"""A member's role: `state_maintainer` owns it, the rest of this room is its means."""
