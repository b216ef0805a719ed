"""What groupby, resample and hash buckets share: numbers of groups, partial tables, their merging.

Clauses themselves stand one a file above; nothing here is one.
"""
