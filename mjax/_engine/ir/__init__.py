"""The intermediate representation: types, jaxprs, effects, the type checker, the printer."""
