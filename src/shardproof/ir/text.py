"""The text form of graphs: print and read back.

``parse_graph(print_graph(g)).graph`` equals ``g`` in everything that :mod:`shardproof.ir.graph`
holds. The grammar is described in :mod:`shardproof.ir.parser` and in ``docs/text-form.md``.
"""

from shardproof.ir.lexer import TextError as TextError
from shardproof.ir.parser import TextGraph as TextGraph
from shardproof.ir.parser import parse_graph as parse_graph
from shardproof.ir.parser import parse_size as parse_size
from shardproof.ir.printer import format_attr as format_attr
from shardproof.ir.printer import format_node as format_node
from shardproof.ir.printer import print_graph as print_graph
