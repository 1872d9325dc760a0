"""Our Python client beside Kafka's: aiokafka and confluent-kafka, each against its own broker."""
