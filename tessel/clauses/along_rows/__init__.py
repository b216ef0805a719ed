"""What clauses share whose answer for a row depends on the rows around it.

Clauses themselves stand one a file above; nothing here is one. A module here may be used by any of
them, and by clauses of other people that look along the rows of a key.
"""
