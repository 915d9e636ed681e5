"""What the DSL's methods have in common: checks, and from a call to its plan node. Private: no user imports it."""
