"""The broker over loopback: beside RocketMQ's, driven by RocketMQ's client."""
