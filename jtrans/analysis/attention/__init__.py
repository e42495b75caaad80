"""Where systems look: attention maps and word alignments."""
