"""The prepared corpus as training reads it."""

from pathlib import Path

PREPARED = Path("data/prepared")  # where `jtrans prepare NAME` puts a corpus
