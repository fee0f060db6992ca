"""Reads of the committed log: `entry_reader`."""
