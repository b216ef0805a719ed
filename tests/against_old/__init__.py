"""Another version answers the same queries on the same stores: the oracle of a change."""
