"""Supervision trees as values: configuration in, specification out. No behaviour of their own."""
