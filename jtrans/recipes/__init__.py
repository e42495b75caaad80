"""Published and demonstration settings as TOML files."""
