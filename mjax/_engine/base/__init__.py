"""What every layer imports: thread state, settings, errors. It imports no other layer."""

# Gives `thread.thread` its settings, which everything else reads.
from mjax._engine.base import config as config
