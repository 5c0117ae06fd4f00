"""The border where files come in: demands, models, records of others. Bounded, suspicious, one clear sentence on failure."""
