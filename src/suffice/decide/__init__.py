"""The only home of a verdict rule. Pure: a demand and evidence in, a verdict with its reasons out."""
