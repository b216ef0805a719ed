"""Units of work as clauses get them: read when touched, held as states, made of tables."""
