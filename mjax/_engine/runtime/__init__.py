"""Devices, arrays, dispatch: everything that happens when a program runs."""
