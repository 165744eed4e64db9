"""Verdicts of earlier runs, kept by the content that they depend on."""
