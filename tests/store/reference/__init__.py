"""Models of the file format: a decoder written apart from the package, and random columns."""
