"""Programs over several devices or batch elements that communicate: collectives, `shard_map`."""
