"""Units of time in seconds. Instants and durations are seconds everywhere (docs/decisions/0002)."""

MINUTE_S = 60
HOUR_S = 3600
DAY_S = 86400
WEEK_S = 7 * DAY_S
