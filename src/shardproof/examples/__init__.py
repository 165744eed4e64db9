"""Specs of captured programs: worked examples, the demo, and the default benchmark."""
