"""When the next link is released: a link runs this beside its script, or as it begins to wait."""
