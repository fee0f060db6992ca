"""Reads of the committed log. See `entry_reader`."""
