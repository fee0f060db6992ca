"""What a broker tells others of itself, pure: `registration`."""
