"""The parts that the grammars of both languages share."""
