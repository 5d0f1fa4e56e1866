"""What the service answers over HTTP: the REST API, the pages of the dashboard and their charts.

`shared` has what API and pages have in common, `identity` who calls and what a caller may do.
"""
