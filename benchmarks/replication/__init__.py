"""Measurements of replication: sends that wait for a slave, catching up, failover, and ways to transfer a log."""
