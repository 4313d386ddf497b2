"""The tables as bindings see them: ops with parameters and results, and the names that languages give them; and the
classes of what is made by name: layers, optimisers, rate schedules.

A name stands for one op, or for several where the language has overloading: `max` means max, max_dim and max_other,
tried in that order. An alias is another name for the same: `absolute` for abs, `special_expit` (expit in the namespace
special) for sigmoid. No language's syntax appears here.
"""
import json
import os


class Param:
    """One parameter. kind: Tensor int float bool str dtype device Scalar; `list` and `fixed` as the signature says;
    number: a Tensor for which a number may stand."""

    def __init__(self, row):
        text = row["type"]
        self.name = row["name"]
        self.optional = row["optional"]
        self.keyword_only = row["keyword_only"]
        self.has_default = "default" in row
        self.default = row.get("default")  # a Python value
        self.kind = text.split("[")[0].rstrip("?").split("|")[0]
        self.number = row["number"]
        self.list = "[" in text
        self.elements_optional = text.startswith("Tensor?[")
        size = text[text.index("[") + 1:text.index("]")] if self.list else ""
        self.fixed = int(size) if size else 0
        self.text_too = "]|str" in text

    @property
    def required(self):
        return not self.has_default and not self.optional


class Op:
    """One row of the table."""

    def __init__(self, row):
        self.name, self.space, self.doc, self.sig = row["name"], row["namespace"], row["doc"], row["signature"]
        self.gradient = row["gradient"]
        self.overload, self.aliases = row["overload"], row["aliases"]
        self.method, self.inplace, self.random = row["method"], row["inplace"], row["random"]
        self.internal = row["internal"]
        self.numbers = row["numbers"]  # may all its tensors that may be numbers be so at once?
        self.params = [Param(p) for p in row["parameters"]]
        self.results = row["results"]
        self.list_result = row["list_result"]
        self.kind, self.dtypes, self.kernels = row["kind"], row["dtypes"], row["kernels"]

    @property
    def creates(self):
        """Does it make a tensor from nothing but shapes and numbers?"""
        if self.name.endswith("_like"):
            return True
        return all(p.kind != "Tensor" for p in self.params) and any(p.kind == "dtype" for p in self.params)

    @property
    def counted(self):
        """Is a list of ints all it takes by position besides self, so that t.view(2, 3) can be written?"""
        positional = [p for p in self.params if not p.keyword_only]
        rest = positional[1:] if positional and positional[0].kind == "Tensor" else positional
        return len(rest) == 1 and rest[0].kind == "int" and rest[0].list and not rest[0].fixed


class Name:
    """What a language calls: its forms are the ops behind it. `of` is the name whose alias it is, or itself."""

    def __init__(self, name, forms, of, spaces):
        self.name, self.forms, self.of = name, forms, of
        prefixes = [n.split("_")[0] if n.split("_")[0] in spaces else "" for n in (name, of)]
        self.prefixed = bool(prefixes[0])  # special_expit: a function of its namespace, never a method
        self.space = prefixes[0] or ("" if prefixes[1] else forms[0].space)

    @property
    def alias(self):
        return self.name != self.of

    @property
    def internal(self):
        return all(f.internal for f in self.forms)

    @property
    def creates(self):
        return all(f.creates for f in self.forms)

    @property
    def method(self):
        return not self.prefixed and any(f.method for f in self.forms)

    @property
    def inplace(self):
        return not self.prefixed and any(f.inplace and len(f.results) == 1 for f in self.forms)


class Class:
    """What is made by name: a layer, an optimiser, a rate schedule. `inputs` and `results`: of its forward."""

    def __init__(self, row):
        self.name, self.sig, self.doc, self.call = row["name"], row["signature"], row["doc"], row["call"]
        self.params = [Param(p) for p in row["parameters"]]
        self.inputs = [Param(p) for p in row["inputs"]]
        self.keys = row.get("keys", "").split()
        made = self.call.split("->")[1].strip()
        self.results = [r.split()[-1] for r in made.strip("()").split(",")] if "(" in made else ["output"]


class Table:
    def __init__(self, ops, classes):
        self.modules, self.optimisers, self.schedules = (
            [Class(row) for row in classes[kind]] for kind in ("modules", "optimisers", "schedules"))
        self.ops = sorted(ops, key=lambda o: o.name)
        groups = {o.name: [o] for o in self.ops}
        for o in self.ops:
            if o.overload:
                groups.setdefault(o.overload, []).append(o)
        self.spaces = {o.space for o in self.ops if o.space}
        named = {n: n for n in groups}
        named.update({a: o.name for o in self.ops for a in o.aliases})
        self.names = [Name(n, groups[named[n]], named[n], self.spaces) for n in sorted(named)]


def load(path):
    """The tables in a folder's ops.json and classes.json; `path` is the former."""
    with open(path) as ops, open(os.path.join(os.path.dirname(path), "classes.json")) as classes:
        return Table([Op(row) for row in json.load(ops)], json.load(classes))
