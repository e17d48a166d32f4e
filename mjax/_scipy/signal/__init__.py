"""Signal processing, following `scipy.signal`."""
