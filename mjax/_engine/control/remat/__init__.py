"""Rematerialization: what is saved for a derivative, and what is computed again."""
