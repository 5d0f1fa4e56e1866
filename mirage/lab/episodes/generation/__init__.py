"""Build episode tables by replaying a trace and forking it at every start point."""
