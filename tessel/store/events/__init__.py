"""Data that are still arriving: cells, rows, tables, batching, the live store.

For sources of events and for readers that want the newest values. What has been committed is read
through :class:`tessel.store.Repository`.
"""
