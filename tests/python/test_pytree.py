"""cairn.utils._pytree: nested values and their structures, compared with torch's."""
import collections
import dataclasses
import unittest

import cairn
from cairn.utils import _pytree as ours
from cases import Case, torch

if torch:
    from torch.utils import _pytree as theirs

Point = collections.namedtuple("Point", "x y")


def module(m):
    return ours if m is cairn else theirs


def tree():
    return {"b": [1, (2, None)], "o": collections.OrderedDict(z=1), "d": collections.defaultdict(list, q=3),
            "e": collections.deque([1, 2]), "p": Point(5, [6])}


def said(call):
    """What a call returns, or the kind and text of its exception."""
    try:
        return str(call())
    except Exception as error:
        return [type(error).__name__, str(error)]


class Trees(Case):
    def test_flatten(self):
        def program(m):
            p = module(m)
            leaves, spec = p.tree_flatten(tree())
            return [str(leaves), str(spec), spec.num_leaves, spec.num_nodes, str(p.tree_unflatten(leaves, spec)),
                    p.treespec_pprint(spec), str(p.tree_flatten_with_path(tree())), p.tree_leaves((1, [2, {}])),
                    str(p.tree_structure(m.ones(2).max(0))), str(p.tree_structure(m.Size([1]))),
                    str(p.tree_flatten([1, [2]], is_leaf=lambda x: x == [2]))]
        self.same(program)

    def test_map(self):
        def program(m):
            p = module(m)
            return [p.tree_map(lambda a, b: a + b, [1, {"k": 2}], [10, {"k": 20}]),
                    str(p.tree_map(lambda a, b: a + b, {"a": 1, "b": 2}, collections.OrderedDict(b=20, a=10))),
                    p.tree_map_only(int, lambda a: -a, [1, "x", (2.0, 3)]), p.tree_any(lambda a: a == 2, [1, [2]]),
                    p.tree_all_only(int, lambda a: a > 0, [1, "x"]),
                    str(p.tree_map_with_path(lambda way, a: p.keystr(way) + str(a), {"a": [1, Point(2, 3)]})),
                    p._broadcast_to_and_flatten([1, None], p.tree_structure([[1, 2], 3]))]
        self.same(program)

    def test_errors(self):
        def program(m):
            p = module(m)
            add = (lambda a, b: a + b)
            calls = [lambda: p.tree_map(add, [1, 2], [1]), lambda: p.tree_map(add, [1, 2], (1, 2)),
                     lambda: p.tree_unflatten([1], p.tree_structure([1, 2])),
                     lambda: p.tree_map(add, {"a": 1}, {"b": 1}), lambda: p.tree_map(add, [1], 3),
                     lambda: p.register_pytree_node(list, None, None)]
            return [said(call) for call in calls]
        self.same(program)

    def test_text(self):
        def program(m):
            p = module(m)
            spec = p.tree_structure([1, (2, {"k": 3}), collections.defaultdict(list, q=3), collections.deque([4])])
            written = p.treespec_dumps(spec)
            return [written, p.treespec_loads(written) == spec, said(lambda: p.treespec_dumps(p.tree_structure(
                Point(1, 2))))[0], said(lambda: p.treespec_loads("[7, {}]"))[0]]
        self.same(program)

    def test_registered(self):
        def program(m):
            p = module(m)

            class Pair:
                def __init__(self, a, b):
                    self.a, self.b = a, b

            @dataclasses.dataclass
            class Record:
                x: int
                y: object = None
            p.register_pytree_node(Pair, lambda v: ([v.a, v.b], "note"), lambda c, context: Pair(*c))
            p.register_dataclass(Record)
            made = p.tree_map(lambda v: v + 1, [Pair(1, 2), Record(3)])
            spec = p.tree_structure(Pair(1, 2))
            return [made[0].a, made[0].b, made[1].x, made[1].y, spec.context, p.tree_leaves(Record(1, [2, 3])),
                    p.tree_structure(Pair(0, 0)) == spec, p.tree_is_leaf(Pair), p.tree_is_leaf(Pair(1, 2))]
        self.same(program)


if __name__ == "__main__":
    unittest.main()
