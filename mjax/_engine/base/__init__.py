"""What every layer needs and which needs none of them: thread state, settings, errors."""

# Gives `context.ctx` its settings, which everything else reads.
from mjax._engine.base import config as config
