"""Runs ArcticDB's own tests on :mod:`tessel.compat.arcticdb`, and counts what passes.

Nothing of theirs is kept here: it takes their repository, for the tests, and their wheel, for what
the tests import beside the store. Without access to either nothing of it runs.
"""
