"""What access control costs."""
