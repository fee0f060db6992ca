"""Simulated runs of auto-switch groups with their controllers; `plan` draws one."""
