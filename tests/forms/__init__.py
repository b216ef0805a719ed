"""One table, stored in every way that the format allows, and one question: one answer."""
