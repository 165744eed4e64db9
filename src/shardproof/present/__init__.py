"""From a decided problem to the plain data that reports draw (:mod:`shardproof.report.view`)."""
