"""Run records: what a measurement leaves behind, enough to decide again tomorrow on another machine."""
