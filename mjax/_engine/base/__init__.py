"""What every layer needs and which needs none of them: thread state, settings, errors."""

# Gives `thread.thread` its settings, which everything else reads.
from mjax._engine.base import config as config
