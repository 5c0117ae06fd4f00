"""Takes results, returns text. Nothing is measured, decided or written here."""
