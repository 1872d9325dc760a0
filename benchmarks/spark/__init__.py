"""Spark on our store beside Spark on Kafka."""
