"""German with English: verb second or last, cases, separable verbs."""
