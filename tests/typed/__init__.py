"""Programs for type checkers: calls that they must accept, and calls that they must reject."""
