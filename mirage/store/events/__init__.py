"""What happened, for others to read: numbered changes, the audit, and notices that wait to be
sent.
"""
