"""The corpora with names: one TOML file for each, and the code that reads them."""
