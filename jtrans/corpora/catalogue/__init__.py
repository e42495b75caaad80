"""The named corpora: one TOML file for each, and the code that reads these files."""
