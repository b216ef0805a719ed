"""Hypothesis strategies for tables, expressions and queries, which tests of several parts share."""
