"""Signal processing, as `scipy.signal` has it."""
