"""The grammars that made the built-in corpora grammar-de-en and grammar-zh-en."""
