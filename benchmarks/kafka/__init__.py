"""A Kafka to compare with, from Maven."""
