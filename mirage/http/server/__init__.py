"""The listening server: which connections are admitted, and how they are accepted."""
