"""What watching a cluster costs it, and how soon a page is there."""
