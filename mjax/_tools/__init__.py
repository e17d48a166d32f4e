"""Tools around the engine: checkpoints, profiles, breakpoints, visualization of shardings."""
