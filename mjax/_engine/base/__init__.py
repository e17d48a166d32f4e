"""Thread state, settings and errors: the lowest layer, which imports no other."""

# Gives `thread.thread` its settings, which everything else reads.
from mjax._engine.base import config as config
