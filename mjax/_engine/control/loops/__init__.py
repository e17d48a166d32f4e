"""Loops: `scan`, `while_loop`, `fori_loop`, `map`."""
