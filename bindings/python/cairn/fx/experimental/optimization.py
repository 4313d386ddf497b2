"""Graphs that compute the same in fewer steps: batch norms are put into the convolutions before them.

Place in the flow: programs call fuse(module) before they run it for its results alone. Invariant: results are the same
but for rounding."""
from __future__ import annotations

import copy
from typing import Any, Iterable

from ... import nn
from ...nn.utils.fusion import fuse_conv_bn_eval
from .._symbolic_trace import symbolic_trace
from ..graph_module import GraphModule
from ..node import Node

__all__ = ["fuse", "matches_module_pattern", "remove_dropout", "replace_node_module"]


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, Any]) -> bool:
    """Is the node a call of a module of the second class, on the result of one of the first?"""
    if not node.args:
        return False
    nodes = (node.args[0], node)
    return all(isinstance(n,
                          Node) and n.op == "call_module" and n.target in modules and type(modules[str(n.target)]) is k
               for k, n in zip(pattern, nodes))


def replace_node_module(node: Node, modules: dict[str, Any], new_module: Any) -> None:
    """Puts another module into the place of the one that a node calls."""
    parent, _, name = str(node.target).rpartition(".")
    modules[str(node.target)] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model: Any, inplace: bool = False, no_trace: bool = False) -> GraphModule:
    """The module with its batch norms in its convolutions; for evaluation."""
    given = model if inplace else copy.deepcopy(model)
    traced = given if no_trace and isinstance(given, GraphModule) else symbolic_trace(given)
    modules = dict(traced.named_modules())
    graph = copy.deepcopy(traced.graph)
    for pattern in ((nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d)):
        for node in list(graph.nodes):
            if not matches_module_pattern(pattern, node, modules) or len(node.args[0].users) > 1:
                continue
            conv, norm = modules[str(node.args[0].target)], modules[str(node.target)]
            if not norm.track_running_stats:
                continue
            replace_node_module(node.args[0], modules, fuse_conv_bn_eval(conv, norm))
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    return GraphModule(traced, graph)


def remove_dropout(model: Any) -> GraphModule:
    """The module without its dropouts."""
    traced = symbolic_trace(model)
    modules = dict(traced.named_modules())
    for node in list(traced.graph.nodes):
        if node.op == "call_module" and isinstance(modules.get(str(node.target)), nn.Dropout):
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
    traced.recompile()
    return traced
