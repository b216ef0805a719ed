"""Tessel installed in other ways than the developer's: what ``make test-versions`` runs."""
