"""Every corpus that has a name: one TOML file an entry, and what reads them."""
