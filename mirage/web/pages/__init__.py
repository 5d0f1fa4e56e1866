"""The pages, one module for each: its routes, and what its template is given."""
