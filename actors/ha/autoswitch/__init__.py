"""What auto-switch HA has beside classic HA: who changes a replica's role, and its history."""
