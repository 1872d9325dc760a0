"""Topics as tables of the lakehouse, and bodies as columns, beside Spark on Kafka."""
