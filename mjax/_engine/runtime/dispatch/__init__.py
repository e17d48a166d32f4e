"""From a call in Python to a compiled program and back: `jit`, its stages, eager execution."""
