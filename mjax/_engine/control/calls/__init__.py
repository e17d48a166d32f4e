"""Calls of jaxprs: `jit`, `closed_call`, `composite`; closed-over values of functions."""
