"""Parts of speech and entities of source words; gold word alignments."""
