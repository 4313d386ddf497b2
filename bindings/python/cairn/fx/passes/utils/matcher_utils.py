"""SubgraphMatcher: where a graph computes as another, smaller one does.

Place in the flow: subgraph_rewriter.py. Invariant: in a match, what is inside is used inside alone, but for what the
pattern returns.
"""
from __future__ import annotations

import dataclasses
from typing import Any

from ...graph import Graph
from ...node import Node

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclasses.dataclass
class InternalMatch:
    """A place: nodes_map has the graph's node for each of the pattern's."""
    anchors: list[Node]
    nodes_map: dict[Node, Node] = dataclasses.field(default_factory=dict)
    placeholder_nodes: list[Any] = dataclasses.field(default_factory=list)
    returning_nodes: list[Node] = dataclasses.field(default_factory=list)
    name_node_map: dict[str, Node] = dataclasses.field(default_factory=dict)


class SubgraphMatcher:
    """match(graph) gives the places of a pattern, which ends in a node for each result."""

    def __init__(self, pattern: Graph, match_output: bool = False, match_placeholder: bool = False,
                 remove_overlapping_matches: bool = True, ignore_literals: bool = False) -> None:
        self.pattern, self.match_output, self.match_placeholder = pattern, match_output, match_placeholder
        self.remove_overlapping_matches, self.ignore_literals = remove_overlapping_matches, ignore_literals
        if not len(pattern.nodes):
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        for node in pattern.nodes:
            if node.op != "output" and not node.is_impure() and not node.users:
                raise AssertionError("SubgraphMatcher cannot be initialized with an pattern with dead code")
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        output = pattern.output_node()
        self.pattern_returning_nodes: list[Node] = output.all_input_nodes
        inner = [n for n in self.pattern_returning_nodes if not set(n.users) - {output}]
        self.pattern_anchors = [output] if match_output else inner

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The places, in order. node_name_match: the anchor's name has this in it."""
        if not self.pattern_anchors:
            return []
        candidates = [[n for n in graph.nodes if self._alike(anchor, n) and node_name_match in n.name]
                      for anchor in self.pattern_anchors]
        starts: list[tuple[Node, ...]] = [()]
        for several in candidates:
            starts = [(*begun, n) for begun in starts for n in several if n not in begun]
        found: list[InternalMatch] = []
        for ends in starts:
            match = InternalMatch(list(ends))
            if all(self._same(p, g, match) for p, g in zip(self.pattern_anchors, ends)) and self._whole(match):
                match.placeholder_nodes = [match.nodes_map[p] for p in self.pattern_placeholder_nodes
                                           if p in match.nodes_map]
                match.returning_nodes = [match.nodes_map[p] for p in self.pattern_returning_nodes]
                found.append(match)
        return self._apart(found) if self.remove_overlapping_matches else found

    def _apart(self, found: list[InternalMatch]) -> list[InternalMatch]:
        """Those that share no node with an earlier one."""
        taken: set[Node] = set()
        kept = []
        for match in found:
            inside = {g for p, g in match.nodes_map.items() if p.op not in ("placeholder", "output")}
            if not inside & taken:
                taken |= inside
                kept.append(match)
        return kept

    def _whole(self, match: InternalMatch) -> bool:
        """Is nothing inside used elsewhere, but for results? All inputs must be known."""
        if any(p not in match.nodes_map for p in self.pattern_placeholder_nodes if p.users):
            return False
        inside = set(match.nodes_map[p] for p in match.nodes_map if isinstance(match.nodes_map[p], Node))
        for p, g in match.nodes_map.items():
            if p.op in ("placeholder", "output") or p in self.pattern_returning_nodes:
                continue
            if any(user not in inside for user in g.users):
                return False
        return True

    def _attribute(self, node: Node) -> Any:
        found: Any = node.graph.owning_module
        for atom in str(node.target).split("."):
            found = getattr(found, atom, None)
        return found

    def _alike(self, p: Node, g: Node) -> bool:
        """Could the one be the other, looked at alone?"""
        if p.op == "placeholder" and not self.match_placeholder:
            return True
        if p.op != g.op:
            return False
        if p.op in ("placeholder", "output"):
            return True
        if p.op == "get_attr":
            return isinstance(self._attribute(g), type(self._attribute(p)))
        if p.op == "call_module" and p.graph.owning_module is not None and g.graph.owning_module is not None:
            return type(self._attribute(p)) is type(self._attribute(g))
        return bool(p.target == g.target)

    def _same(self, p: Node, g: Any, match: InternalMatch) -> bool:
        """Does the graph at g compute what the pattern does at p? Notes what it sees."""
        if isinstance(p, Node) and p.op == "placeholder" and not self.match_placeholder:
            if p in match.nodes_map:
                return _equal(match.nodes_map[p], g)
            match.nodes_map[p] = g
            return True
        if not isinstance(g, Node):
            return False
        if p in match.nodes_map:
            return match.nodes_map[p] is g
        if g in match.nodes_map.values() or not self._alike(p, g):
            return False
        before = dict(match.nodes_map)
        match.nodes_map[p] = g
        if self._same_values(p.args, g.args, match) and set(p.kwargs) == set(g.kwargs) and all(
                self._same_values(p.kwargs[k], g.kwargs[k], match) for k in p.kwargs):
            return True
        match.nodes_map = before
        return False

    def _same_values(self, p: Any, g: Any, match: InternalMatch) -> bool:
        if isinstance(p, Node):
            return self._same(p, g, match)
        if isinstance(g, Node):
            return False
        if isinstance(p, (list, tuple)):
            return isinstance(g, (list, tuple)) and len(p) == len(g) and all(
                self._same_values(a, b, match) for a, b in zip(p, g))
        if isinstance(p, dict):
            return isinstance(g, dict) and list(p) == list(g) and all(self._same_values(p[k], g[k], match) for k in p)
        if isinstance(p, slice):
            return isinstance(g, slice) and self._same_values((p.start, p.stop, p.step), (g.start, g.stop, g.step),
                                                              match)
        return self.ignore_literals or _equal(p, g)


def _equal(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and not isinstance(a, Node) and bool(a == b))
