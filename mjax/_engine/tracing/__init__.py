"""The current interpreter, the Primitive record, evaluation, staging to a jaxpr."""
