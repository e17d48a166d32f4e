"""Branches: `cond`, `switch`, `platform_dependent`."""
