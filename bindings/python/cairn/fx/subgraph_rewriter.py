"""replace_pattern: wherever a graph has a pattern, it gets a replacement.

Place in the flow: passes/utils/matcher_utils.py finds the places. Invariant: matches do not overlap, and the graph is
whole after each one.
"""
from __future__ import annotations

from typing import Any, Callable, NamedTuple

from .. import nn
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule, _copied_attribute
from .node import Node
from .passes.utils.matcher_utils import InternalMatch, SubgraphMatcher

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """A place: the last node, and the graph's node for each of the pattern."""
    anchor: Node
    nodes_map: dict[Node, Node]


class ReplacedPatterns:
    """A place, and the nodes that are there now."""

    def __init__(self, anchor: Node, nodes_map: dict[Node, Node], replacements: list[Node]) -> None:
        self.anchor, self.nodes_map, self.replacements = anchor, nodes_map, replacements


def replace_pattern(gm: GraphModule, pattern: Any, replacement: Any) -> list[Match]:
    """Replaces what computes as pattern does (a function or module, by its trace) by replacement; the places."""
    return [Match(r.anchor, r.nodes_map) for r in replace_pattern_with_filters(gm, pattern, replacement)]


def _graph_of(code: Any) -> Graph:
    return code if isinstance(code, Graph) else code.graph if isinstance(code,
                                                                         GraphModule) else symbolic_trace(code).graph


def replace_pattern_with_filters(gm: GraphModule, pattern: Any, replacement: Any = None,
                                 match_filters: list[Callable[..., bool]] | None = None, ignore_literals: bool = False,
                                 replacement_callback: Callable[..., Any] | None = None,
                                 node_name_match: str = "") -> list[ReplacedPatterns]:
    """The same where all filters say yes to (match, graph, pattern). ignore_literals: numbers of the pattern stand for
    any; replacement_callback: makes the replacement of each match."""
    graph, wanted = gm.graph, _graph_of(pattern)
    found = SubgraphMatcher(wanted, match_output=False, match_placeholder=False, remove_overlapping_matches=True,
                            ignore_literals=ignore_literals).match(graph, node_name_match)
    found = [m for m in found if all(f(m, graph, wanted) for f in match_filters or ())]
    fixed = _graph_of(replacement) if replacement is not None else None
    moved: dict[Node, Node] = {}
    made = []
    for match in found:
        new = _graph_of(replacement_callback(match, graph, wanted)) if replacement_callback is not None else fixed
        if new is None:
            raise ValueError("replace_pattern_with_filters: neither a replacement nor a replacement_callback was given")
        made.append(_replaced(graph, match, new, moved))
    gm.recompile()
    if isinstance(replacement, nn.Module):
        for node in gm.graph.nodes:
            if node.op in ("call_module", "get_attr") and not _has(gm, str(node.target)):
                _copied_attribute(replacement, gm, str(node.target))
    gm.delete_all_unused_submodules()
    return made


def _has(module: Any, target: str) -> bool:
    for atom in target.split("."):
        if not hasattr(module, atom):
            return False
        module = getattr(module, atom)
    return True


def _replaced(graph: Graph, match: InternalMatch, new: Graph, moved: dict[Node, Node]) -> ReplacedPatterns:
    """Puts the new nodes into the place of a match. moved: outputs of earlier matches, by what stands for them now."""
    inputs = [n for n in new.nodes if n.op == "placeholder"]
    if len(match.placeholder_nodes) != len(inputs):
        raise AssertionError("the pattern has %d inputs and the replacement %d" % (len(match.placeholder_nodes),
                                                                                len(inputs)))
    values: dict[Node, Any] = {}
    for node, given in zip(inputs, match.placeholder_nodes):
        while isinstance(given, Node) and given in moved:
            given = moved[given]
        values[node] = given
    inside = {n for k, n in match.nodes_map.items() if k.op not in ("placeholder", "output")}
    order = list(graph.nodes)
    last = max((order.index(n) for n in inside), default=-1)
    known = set(order)
    with graph.inserting_after(order[last]) if last >= 0 else graph.inserting_before(order[0]):
        result = graph.graph_copy(new, values)
    outputs = [result] if not isinstance(result, (list, tuple)) else list(result)
    if len(outputs) != len(match.returning_nodes):
        raise AssertionError("the pattern returns %d values and the replacement %d" % (len(match.returning_nodes),
                                                                                     len(outputs)))
    for old, now in zip(match.returning_nodes, outputs):
        if isinstance(now, Node):
            old.replace_all_uses_with(now, delete_user_cb=lambda user: user not in inside)
            moved[old] = now
    for node in reversed(order):
        if node in inside and not node.users and not node._erased:
            graph.erase_node(node)
    return ReplacedPatterns(match.anchors[0], match.nodes_map, [n for n in graph.nodes if n not in known])
