"""Checks as values: `checkify` and the checks that it adds."""
