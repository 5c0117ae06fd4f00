"""A server under load, simulated: service curves, schedulers, arrivals, percentiles, and queueing theory beside them."""
