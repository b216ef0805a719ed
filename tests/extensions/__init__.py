"""What somebody adds to a clone: an operator, an aggregate and a clause, each in one place."""
