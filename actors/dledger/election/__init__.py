"""A member's role: `state_maintainer` owns it, and the other modules serve it."""
