"""Chinese with English: measure words, aspect, relative clauses before the noun."""
