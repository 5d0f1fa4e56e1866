"""The database: the one room that speaks SQL."""
