"""Statistics on arrays: the clustered bootstrap, and tails of many tokens. NumPy is here, nothing outside is."""
