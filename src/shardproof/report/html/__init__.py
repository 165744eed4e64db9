"""The report as one HTML file, and as fragments for notebooks. Everything shown is in the verdict
and the view; nothing is decided here."""
