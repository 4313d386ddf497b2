"""cairn.fx: the Python of a module as a graph that programs look at, change and run again.

symbolic_trace(module) runs its forward once with proxies; the result is a module whose `graph` has a node for each call
and whose `code` is Python again. Interpreter runs a graph node by node, replace_pattern rewrites one.
"""
from __future__ import annotations

from . import graph, graph_module, immutable_collections, interpreter, node, proxy, subgraph_rewriter
from ._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from .graph import CodeGen, Graph
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg
from .proxy import Proxy
from .subgraph_rewriter import replace_pattern

__all__ = ["CodeGen", "Graph", "GraphModule", "Interpreter", "Node", "PH", "Proxy", "ProxyableClassMeta", "Tracer",
           "Transformer", "graph", "graph_module", "has_side_effect", "immutable_collections", "interpreter", "map_arg",
           "node", "proxy", "replace_pattern", "subgraph_rewriter", "symbolic_trace", "wrap"]
