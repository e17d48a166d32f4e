"""Several processes that run one program: how they connect, watch each other, and communicate."""
