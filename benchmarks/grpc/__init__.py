"""The port of gRPC beside RocketMQ's proxy."""
