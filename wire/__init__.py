"""Bytes <-> frozen frames of every protocol and file format. No trio, clock, randomness or I/O."""
