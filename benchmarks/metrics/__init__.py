"""What telling metrics costs."""
