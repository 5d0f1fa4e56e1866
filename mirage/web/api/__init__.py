"""The REST API: routes, wire types and the OpenAPI document. Rules are in the rooms below `web`."""
