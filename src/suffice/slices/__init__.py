"""Slices of models on disk: GGUF files with true shapes and types and random weights, kept in a bounded cache."""
