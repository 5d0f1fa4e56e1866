"""Find what people must be told of their chains, and deliver it."""
