"""Set what Mirage may do: modes, the kill switch, and the admins' limits."""
