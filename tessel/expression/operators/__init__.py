"""The operators: one small frozen class each, one module a family; the listing is the feature list.

A new operator is one class here (fields, type rule, and ``compute`` on Arrow values) and one row in
the tests. Text call, JSON form, digest, plan label and traversal follow from the class.
"""
