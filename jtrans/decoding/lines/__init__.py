"""Raw lines around the search: as sentences to translate, and as translations."""
