"""The listening server: which connections it admits, and how it accepts them."""
