"""Rematerialization: values that are saved for a derivative, and values that are recomputed."""
