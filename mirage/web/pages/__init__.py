"""The pages, one module for each: its routes, and the values that its template shows."""
