"""What the API and the pages share: the request's context, who asks, paging, problems, caching
and limits.
"""
