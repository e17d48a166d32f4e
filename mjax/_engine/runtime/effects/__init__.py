"""Effects at run time: tokens that order them, callbacks, programs in the background."""
