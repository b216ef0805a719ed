"""How columns become bytes: one file per encoding, used for segments and manifests."""
