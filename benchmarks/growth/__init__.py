"""What the same work costs when there is ten and a hundred times as much of everything else."""
