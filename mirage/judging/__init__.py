"""Run policies over episode tables and compare what they cost."""
