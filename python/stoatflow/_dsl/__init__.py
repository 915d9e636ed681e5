"""Shared by the DSL's methods: checks of arguments, and building plan nodes from calls. Private."""
