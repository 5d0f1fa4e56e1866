"""What leaves for people: mail and webhooks. Each sends one message, or raises PostError."""
