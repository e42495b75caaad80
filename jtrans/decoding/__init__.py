"""From source text to translations: beam search, teacher-forced scores and the translator."""
