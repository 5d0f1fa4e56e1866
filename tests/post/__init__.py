"""Mail, webhooks, and what goes through them."""
