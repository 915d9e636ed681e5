"""A real Prometheus for tests, and an application to monitor."""
