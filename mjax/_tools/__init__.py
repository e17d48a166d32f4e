"""Tools around the engine: checkpoints on disk, profiles, breakpoints, pictures of shardings."""
