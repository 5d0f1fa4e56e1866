"""Contains the use cases of Mirage: each is one function over ports and the store."""
