"""Several processes that run one program: finding, watching and telling each other."""
