"""Event rows and the bridge from rows to record batches.

For sources that deliver one record at a time. Whoever has tables already writes them through
:class:`tessel.store.Repository`.
"""
