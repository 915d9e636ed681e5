"""A real Apache Kafka broker for tests and benchmarks, resolved from Maven Central and run on loopback."""
