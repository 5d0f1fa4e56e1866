"""The wire types of the REST API, one module for each resource."""
