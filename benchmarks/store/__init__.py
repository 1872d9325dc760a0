"""The store inside a process: beside RocketMQ's own in its JVM, and beside what Python programs embed instead."""
