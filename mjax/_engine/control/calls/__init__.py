"""Calls of jaxprs: `jit`, `closed_call`, `composite`, and what functions close over."""
