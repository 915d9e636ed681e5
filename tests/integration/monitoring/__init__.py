"""A real Prometheus for tests, and an application that it can watch."""
