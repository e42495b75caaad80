"""What the grammars of both languages use."""
