"""Programs over several devices or batch elements that talk to each other: collectives."""
