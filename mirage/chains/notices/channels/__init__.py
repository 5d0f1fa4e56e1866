"""Transports of notices: mail and webhooks. Each sends one message, or raises DeliveryError."""
