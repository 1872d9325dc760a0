"""Results as a page: ``docs/performance.md`` is what was measured, and says when, where and beside what."""
