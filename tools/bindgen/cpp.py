"""C++'s binding: ops.hpp (every op as a function, with a struct of its named options), options.hpp (their names),
methods.inc (those that are methods of cn::Tensor), and the classes made by name (cpp_classes.py).

An op is a function whose arguments with a default may be given by position, or by name in its struct of options:
sum(x, 1, true) or sum(x, SumOptions().dim(1).keepdim(true)). Forms of one name are overloads where C++ can tell them
apart. What the headers of bindings/cpp take in another form is left to those (OWN, OWN_METHODS).
"""
import cpp_classes
from cpp_types import Arg, braced, camel, comment, head, options_struct, result_struct, wrap

# Written by hand: in create.hpp and index.hpp.
OWN = {"allclose", "index", "index_put", "pointwise"}
OWN_METHODS = OWN | {"equal"}
PREFIXES = {"linalg": "linalg_", "special": "special_", "fft": "fft_"}


class Function:
    """One form of a name: an op, as C++ declares it."""

    def __init__(self, op, name, space):
        self.op = op
        prefix = PREFIXES.get(space, "")
        self.space = space if space in PREFIXES else ""
        self.name = name.removeprefix(prefix)
        self.args = [Arg(p) for p in op.params if not (op.creates and p.kind in ("dtype", "device"))]
        needed = [a for a in self.args if a.default is None]
        for a in self.args[:self.args.index(needed[-1])] if needed else []:
            a.default = None  # what stands before one that must be given
        self.required = [a for a in self.args if a.default is None]
        self.optional = [a for a in self.args if a.default is not None]
        # Tensors that may be left out and follow those that may not: conv2d(x, w, b, options).
        self.tensors = []
        for a in self.optional:
            if a.p.kind != "Tensor" or a.p.number:
                break
            self.tensors.append(a)
        self.options = camel(op.name) + "Options" if self.optional else None

    @property
    def result(self):
        if self.op.list_result:
            return "std::vector<Tensor>"
        return camel(self.op.name) + "Result" if len(self.op.results) > 1 else "Tensor"

    def parameters(self, args, creates=True, defaults=True):
        made = [a.declared(defaults) for a in args]
        if creates and self.op.creates:
            made.append("const TensorOptions &options" + (" = {}" if defaults else ""))
        return made

    def values(self):
        """One for each parameter of the op's signature."""
        args = {a.p.name: a.value for a in self.args}
        return [args.get(p.name) or "detail::v(options.%s())" % p.kind for p in self.op.params]

    def same_call(self, other):
        """May C++ not know which of the two is meant?"""
        low = max(len(self.required), len(other.required))
        high = min(len(self.args), len(other.args))
        return any([a.tag for a in self.args[:k]] == [a.tag for a in other.args[:k]] for k in range(low, high + 1))


def passed(f, own=()):
    """The arguments of f where those in `own` have their names and the others are fields of options."""
    return [a.name if a in own else "options.%s_" % a.name for a in f.args]


def body(f):
    lines = ['  static const cn_op *const op = detail::find_op("%s");' % f.op.name]
    values = f.values()
    if values:
        lines.append(wrap("  const cn_value args[] = {", values, "};"))
    given = "op, %s, %d" % ("args" if values else "nullptr", len(values))
    if f.op.list_result:
        return lines + ["  return detail::call_list(%s);" % given]
    n = len(f.op.results)
    if n > 1:
        lines += ["  cn_tensor *out[%d];" % n, "  detail::call_all(out, %d, %s);" % (n, given)]
        return lines + [wrap("  return {", ["Tensor::own(out[%d])" % i for i in range(n)], "};")]
    if f.op.creates:
        return lines + ["  return detail::finish(detail::call(%s), options);" % given]
    return lines + ["  return detail::call(%s);" % given]


def function_text(f):
    lines = [comment(f.op.doc), wrap("inline %s %s(" % (f.result, f.name), f.parameters(f.args), ")"), "{",
             *body(f), "}"]
    tail = ["options"] if f.op.creates else []
    name = f.name
    if f.options and not f.op.creates:
        kinds = [f.required] + ([f.required + f.tensors] if f.tensors and len(f.tensors) < len(f.optional) else [])
        for own in kinds:
            lines += braced(wrap("inline %s %s(" % (f.result, name),
                                 f.parameters(own, False, False) + ["const %s &options" % f.options], ")"),
                            [wrap("return %s(" % original(f), passed(f, own), ");")], "")
    elif f.options:  # the options of the op, then those of tensors
        given = [p.replace("options.", "named.") for p in passed(f, f.required)] + tail
        lines += braced(wrap("inline %s %s(" % (f.result, name), f.parameters(f.required, False, False) +
                             ["const %s &named" % f.options, "const TensorOptions &options = {}"], ")"),
                        [wrap("return %s(" % original(f), given, ");")], "")
    return "\n".join(lines)


def forward_text(f, target, own):
    """Another name for the same."""
    names = [a.name for a in f.args] + (["options"] if f.op.creates else [])
    return "\n".join(braced(wrap("inline %s %s(" % (f.result, own), f.parameters(f.args), ")"),
                            [wrap("return %s(" % target, names, ");")], ""))


def inplace_text(f, name):
    first = f.args[0].name
    args = ["const Tensor &" + first] + f.parameters(f.args[1:])
    return "\n".join([wrap("inline const Tensor &%s_(" % name, args, ")"), "{",
                      '  static const cn_op *const op = detail::find_op("%s");' % f.op.name,
                      wrap("  const cn_value args[] = {", f.values(), "};"),
                      "  detail::call_in_place(op, args, %d, %s.get());" % (len(f.op.params), first),
                      "  return %s;" % first, "}"])


# ---- the table ----

class Forms:
    """All functions and methods to write, overloads told apart."""

    def __init__(self, table):
        self.functions, self.aliases, self.inplace, self.methods, self.inplace_methods = [], [], [], [], []
        for name in table.names:
            if name.internal:
                continue
            shown, shown_inplace = [], []
            for op in name.forms:
                if op.name in OWN or op.internal:
                    continue
                f = Function(op, name.name, name.space)
                f.target = name.of
                f.alias = name.alias or name.name != op.name
                if not any(f.same_call(g) for g in shown):
                    shown.append(f)
                if op.inplace and len(op.results) == 1 and not any(f.same_call(g) for g in shown_inplace):
                    shown_inplace.append(f)
            for f in shown:
                (self.aliases if f.alias else self.functions).append(f)
                if f.op.method and not name.prefixed and f.name not in OWN_METHODS:
                    self.methods.append(f)
            for f in shown_inplace:
                if f.space:
                    continue
                self.inplace.append(f)
                if f.op.method and not name.prefixed:
                    self.inplace_methods.append(f)


def spaced(functions, text):
    """The texts of functions, those of a namespace inside it."""
    out = []
    for space in sorted({f.space for f in functions}):
        texts = [text(f) for f in functions if f.space == space]
        if space:
            texts = ["namespace %s {" % space] + texts + ["}  // namespace %s" % space]
        out += texts
    return out


def options_text(forms):
    structs = sorted({f.options for f in forms.functions if f.options} |
                     {f.result for f in forms.functions if f.result.endswith("Result")})
    lines = [head("options.hpp", "the names of the structs of named options, and of several results."),
             "namespace cn {", "", *("struct %s;" % s for s in structs), "", "}  // namespace cn", "", "#endif", ""]
    return "\n".join(lines)


def original(f):
    """What the function is called that f is another name of."""
    prefix = PREFIXES.get(f.op.space, "")
    plain = f.op.name.removeprefix(prefix)
    return "cn::%s::%s" % (f.op.space, plain) if f.op.space in PREFIXES else "cn::" + plain


def methods_text(forms):
    lines = ["/* methods.inc: ops as methods, inside of class Tensor. Generated by tools/bindgen: see ops.hpp. */"]
    for f in forms.methods:
        lines.append(wrap("inline %s %s(" % (f.result, f.name), f.parameters(f.args[1:], False), ") const;"))
        if f.options and not f.alias:
            lines.append(wrap("inline %s %s(" % (f.result, f.name), f.parameters(f.required[1:], False, False) +
                              ["const %s &options" % f.options], ") const;"))
    lines += ["", "/* ---- in place ---- */"]
    for f in forms.inplace_methods:
        lines.append(wrap("inline const Tensor &%s_(" % f.name, f.parameters(f.args[1:], False), ") const;"))
    return "\n".join(lines) + "\n"


def definitions(forms):
    out = []
    for f in forms.methods:
        names = ["*this"] + [a.name for a in f.args[1:]]
        out += braced(wrap("inline %s Tensor::%s(" % (f.result, f.name), f.parameters(f.args[1:], False, False),
                           ") const"), [wrap("return %s(" % original(f), names, ");")], "")
        if f.options and not f.alias:
            names = ["*this"] + [a.name for a in f.required[1:]] + ["options"]
            given = f.parameters(f.required[1:], False, False) + ["const %s &options" % f.options]
            out += braced(wrap("inline %s Tensor::%s(" % (f.result, f.name), given, ") const"),
                          [wrap("return %s(" % original(f), names, ");")], "")
    for f in forms.inplace_methods:
        names = ["*this"] + [a.name for a in f.args[1:]]
        out += braced(wrap("inline const Tensor &Tensor::%s_(" % f.name, f.parameters(f.args[1:], False, False),
                           ") const"), [wrap("return cn::%s_(" % f.name, names, ");")], "")
    return out


def ops_text(forms):
    lines = [head("ops.hpp", "every op as a function.", """
 *
 * Arguments with a default may be given by position or by name: sum(x, 1, true), sum(x, SumOptions().dim(1)). A list
 * or a text that is not given has the default that the op's signature says; docs/OPS.md lists those.""")]
    # tensor.hpp includes this file in its middle: whoever asks for this one first gets it from there.
    lines[0] = lines[0].replace("#ifndef", "#include <cairn/tensor.hpp>\n#ifndef", 1)
    lines += ["#include <limits>", "", "namespace cn {", ""]
    lines.append("/* ---- named options ---- */")
    lines += [options_struct(f.options, f.optional) for f in forms.functions if f.options]
    lines += ["", "/* ---- several results ---- */"]
    for f in forms.functions:
        if f.result.endswith("Result"):
            lines += result_struct(f.result, f.op.results)
    lines += ["", "/* ---- functions ---- */", *spaced(forms.functions, function_text)]
    lines += ["", "/* ---- other names ---- */", *spaced(forms.aliases, lambda f: forward_text(f, original(f), f.name))]
    lines += ["", "/* ---- written into the first argument ---- */",
              *(inplace_text(f, f.name) for f in forms.inplace)]
    lines += ["", "/* ---- methods ---- */", *definitions(forms)]
    return "\n".join(lines) + "\n\n}  // namespace cn\n\n#endif\n"


def files(table):
    forms = Forms(table)
    made = {"ops.hpp": ops_text(forms), "options.hpp": options_text(forms), "methods.inc": methods_text(forms)}
    made.update(cpp_classes.files(table))
    return made
