"""HLO text: a parser, and the lowering of one module to one core graph a rank."""
