"""From jaxprs to StableHLO modules."""
