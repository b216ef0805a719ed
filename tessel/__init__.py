"""Tessel: a versioned store for time-series tables with one query pipeline."""
