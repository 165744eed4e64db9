"""``shardproof init``: looks at a repository, without running anything of it, and writes a first
check file."""
