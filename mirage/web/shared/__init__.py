"""Holds the parts that the API and the pages share.

These are the request's context, its caller, paging, problems, caching and limits.
"""
