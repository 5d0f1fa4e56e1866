"""The database itself: tables, transactions, migrations, copies, and the statements that every
query shares.
"""
