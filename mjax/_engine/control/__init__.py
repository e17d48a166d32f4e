"""Higher-order primitives: those that hold jaxprs in their params."""
