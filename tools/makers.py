"""Writes the C constructors of what is made by name (modules, optimisers, rate schedules) from the signatures in their
class tables; called by opgen.py.

    include/cairn/layers.h       src/nn/api.gen.c       cn_nn_conv2d(3, 64, 7, .stride = CN_INTS(2))
    include/cairn/optimisers.h   src/optim/api.gen.c    cn_optim_adam(net, .lr = 1e-3)
    include/cairn/schedules.h    src/optim/lr.gen.c     cn_lr_step(opt, 30, .gamma = 0.1)

and src/optim/settings.gen.h, the settings of each optimiser as a struct with named fields, for its own code.

A signature is written as PyTorch writes the constructor; its tag is the C name. Arguments without a default are
positional, the others are fields of an options struct, by the rules of ops (zero is the default, CN_ZERO is zero). Of
an int[N] without a default one number is positional, for all N; where they differ it is 0, and NAME_each has them.
"""
import os
import re

from opsig import Bad, KEYWORDS, c_float, c_int, c_str, parse_default, rows_of_c, split_top

TYPE = re.compile(r"(Tensor|Module|int|float|bool|str|dtype|device)(\?)?(?:\[(\d*)\](\|str)?(\?)?)?$")
LIST = re.compile(r"\[")


class Kind:
    """One kind of thing that is made: where its rows are, and what its constructors look like."""

    def __init__(self, result, folder, header, source, prefix, first, returns, make, includes, what):
        self.result, self.folder, self.header, self.source = result, folder, header, source
        self.prefix, self.first, self.returns, self.make = prefix, first, returns, make
        self.includes, self.what = includes, what


KINDS = [
    Kind("Module", "src/nn", "layers.h", "src/nn/api.gen.c", "nn", [], "cn_module *", "cn_module_make({name}, {args})",
         "module.h", "the constructors of layers"),
    Kind("Optimizer", "src/optim", "optimisers.h", "src/optim/api.gen.c", "optim", ["cn_module *net"], "cn_optim *",
         "cn_optim_make({name}, net, {args})", "optimiser.h", "the constructors of optimisers"),
    Kind("Scheduler", "src/optim", "schedules.h", "src/optim/lr.gen.c", "lr", ["cn_optim *opt"], "cn_schedule *",
         "cn_schedule_make({name}, opt, {args})", "optimiser.h", "the constructors of learning-rate schedules"),
]


class Param:
    def __init__(self, text, where):
        m = re.match(r"(\S+)\s+(\w+)\s*(?:=\s*(.+))?$", text)
        t = m and TYPE.match(m.group(1))
        if not t:
            raise Bad("%s: cannot read parameter '%s'" % (where, text))
        self.type, self.name = m.group(1), m.group(2)
        self.base = t.group(1)
        self.list = None if not LIST.search(self.type) else int(t.group(3) or 0)
        self.text_too = bool(t.group(4))
        self.optional = bool(t.group(5) if self.list is not None else t.group(2))
        self.has_default = m.group(3) is not None
        self.default_text = m.group(3)
        self.default = parse_default(m.group(3)) if self.has_default else None
        self.c = self.name + "_" if self.name in KEYWORDS or self.name in ("size", "guard") else self.name
        if self.has_default and self.base == "bool" and self.default is True and not self.optional:
            self.c = "no_" + self.name

    def items(self):
        """The default of a list of fixed length as C elements; None for None."""
        if self.default is None:
            return None
        d = self.default if isinstance(self.default, list) else [self.default] * (self.list or 1)
        return [c_int(v) if self.base == "int" else c_float(v) for v in d]

    def number(self):
        return "int64_t" if self.base == "int" else "double"

    def scalar(self):
        return {"Tensor": "cn_tensor *", "Module": "cn_module *", "int": "int64_t ", "float": "double ",
                "bool": "int64_t " if self.optional else "bool ", "str": "const char *", "dtype": "cn_dtype ",
                "device": "cn_device "}[self.base]

    def positional(self):
        """Its C parameters, when it has no default."""
        if self.list is None:
            return [self.scalar() + self.c]
        if self.list:
            return ["%s %s" % (self.number(), self.c)]
        return ["const %s *%s" % (self.number(), self.c), "size_t n%s" % self.name]

    def fields(self):
        """Its fields in the options struct."""
        numbers = "cn_ints" if self.base == "int" else "cn_doubles"
        if not self.has_default:
            return ["%s %s_each" % (numbers, self.name)] if self.list else []
        if self.list is None:
            return [self.scalar() + self.c]
        return ["%s %s" % (numbers, self.c)] + (["const char *%s_str" % self.name] if self.text_too else [])

    def note(self):
        if not self.has_default:
            return "%s: all %d of it, where they differ; the argument is 0 then" % (self.name, self.list)
        head = "" if self.c == self.name else self.name + ": "
        note = "%s%s, default %s" % (head, self.type, self.default_text)
        if self.c.startswith("no_") and self.default is True:
            return note + "; set this one for False"
        if self.base == "bool" and self.optional:
            return note + "; 1 for True, CN_ZERO for False"
        if self.base == "float" and self.optional and self.list is None and self.default is not None:
            return note + "; CN_ZERO for 0, NAN for None"
        if self.base in ("int", "float") and self.list is None and self.default != 0:
            return note + "; CN_ZERO for 0"
        return note

    def value(self):
        """A cn_value expression, and the declarations that it needs."""
        o = "o->"
        if self.list is not None:
            return self.list_value(o)
        if not self.has_default:
            make = {"Tensor": "tensor", "Module": "module", "str": "str", "float": "float", "bool": "bool"}
            return "cn_v_%s(%s)" % (make.get(self.base, "int"), self.c), []
        f, d = o + self.c, self.default
        if self.base in ("Tensor", "Module"):
            return "cn_v_%s(%s)" % (self.base.lower(), f), []
        if self.base == "int":
            return ("cn_opt_int_or_none(%s)" % f if d is None else "cn_v_int(cn_opt_int(%s, %s))" % (f, c_int(d))), []
        if self.base == "float":
            if d is not None and self.optional:
                return "cn_opt_float_nan(%s, %s)" % (f, c_float(d)), []
            expr = "cn_opt_float_or_none(%s)" % f if d is None else "cn_v_float(cn_opt_float(%s, %s))" % (f, c_float(d))
            return expr, []
        if self.base == "bool":
            if self.optional:
                return "cn_opt_bool(%s, %s)" % (f, "cn_v_none()" if d is None else "cn_v_bool(%s)" % str(d).lower()), []
            return "cn_v_bool(%s%s)" % ("!" if d else "", f), []
        if self.base == "str":
            return ("cn_v_str(%s)" % f if d is None else "cn_v_str(%s ? %s : %s)" % (f, f, c_str(d))), []
        return "cn_opt_code(%s)" % f, []

    def list_value(self, o):
        kind = "ints" if self.base == "int" else "floats"
        if not self.has_default and not self.list:
            return "cn_v_%s(%s, n%s)" % (kind, self.c, self.name), []
        items = self.items()
        decls, default = [], "NULL"
        if items:
            default = self.name + "_default"
            decls.append("static const %s %s[] = {%s};" % (self.number(), default, ", ".join(items)))
        read = "ints" if self.base == "int" else "doubles"
        if not self.has_default:
            return 'cn_arg_%s_each(&%s, o->%s_each, "%s")' % (read, self.c, self.name, self.name), decls
        f, fallback = o + self.c, "%s, %d" % (default, len(items or []))
        if self.text_too:
            return 'cn_opt_ints_or_str(%s, o->%s_str, "%s", %s)' % (f, self.name, self.name, fallback), decls
        return "cn_opt_%s(%s, %s)" % (read, f, fallback), decls


class Maker:
    def __init__(self, sig, doc, place):
        self.place, self.doc = place, doc
        m = re.match(r"\s*(\w+)\s*\((.*)\)\s*->\s*(\w+)\s*(?:;\s*(\w+))?\s*$", sig, re.S)
        if not m:
            raise Bad("%s: cannot read signature '%s'" % (place, sig))
        self.name, self.result, self.c = m.group(1), m.group(3), m.group(4)
        where = "%s: %s" % (place, self.name)
        self.params = [Param(p, where) for p in split_top(m.group(2)) if p != "*"]
        self.options = [p for p in self.params if p.fields()]


def read_makers(root, kind):
    found = {}
    for folder, dirs, files in sorted(os.walk(os.path.join(root, kind.folder))):
        dirs.sort()
        for f in sorted(files):
            if f.endswith(".gen.c") or not f.endswith(".c"):
                continue
            full = os.path.join(folder, f)
            with open(full, encoding="utf-8") as h:
                text = h.read()
            for sig, doc, place in rows_of_c(os.path.relpath(full, root), text):
                maker = Maker(sig, doc, place)
                if maker.result != kind.result:
                    continue
                if maker.name in found:
                    raise Bad("%s: %s stands already at %s" % (place, maker.name, found[maker.name].place))
                found[maker.name] = maker
    return [m for _, m in sorted(found.items(), key=lambda x: x[1].c or "") if m.c]


def banner(name, what, folder, more=""):
    return """/* %s: %s.
 *
 * Generated by tools/opgen.py from the signatures in %s. Do not edit: change the class's row there and run
 * tools/opgen.py again.%s
 */
""" % (name, what, folder, more)


def prototype(kind, m, gen, tail, head=""):
    args = kind.first + [c for p in m.params if not p.has_default for c in p.positional()]
    name = "cn_%s_%s" % (kind.prefix, m.c)
    if m.options:
        args.append("const %s_opts *opts" % name)
        name += "_with"
    return gen.wrap_call("%s%s%s(" % (head, kind.returns, name), args or ["void"], tail)


def header(kind, makers, gen):
    guard = "CAIRN_" + kind.header.upper().replace(".", "_")
    out = [banner(kind.header, kind.what, kind.folder, """
 *
 * Those with options have a function cn_%s_NAME_with, whose last argument is an options struct (NULL: all
 * defaults), and a macro cn_%s_NAME that fills it by name. A field that is zero has its default; CN_ZERO
 * says that zero itself is meant. Lists are written CN_INTS(1, 0), CN_DOUBLES(0.9, 0.99) and mean what they
 * say; where a fixed count is wanted a list of one stands for all. Results are owned by the caller; NULL is a
 * failure. Modules that are arguments are taken over.""" % (kind.prefix, kind.prefix)),
           '#ifndef %s\n#define %s\n\n#include "kw.h"\n#include "%s"\n\nCN_BEGIN_DECLS\n'
           % (guard, guard, kind.includes)]
    for m in makers:
        name = "cn_%s_%s" % (kind.prefix, m.c)
        out.append("\n")
        if m.options:
            out.append("typedef struct %s_opts {\n  size_t size;\n  const struct cn_guard *guard;\n" % name)
            for p in m.options:
                out.append("  %s; /* %s */\n" % (";\n  ".join(p.fields()), p.note()))
            out.append("} %s_opts;\n" % name)
        out.append(gen.comment("%s: %s" % (m.name, m.doc)))
        out.append(prototype(kind, m, gen, ");", "CN_API CN_MUST_USE ") + "\n")
    out.append("\nCN_END_DECLS\n\n#ifndef __cplusplus\n")
    out += [macro(kind, m, gen) for m in makers if m.options]
    return "".join(out) + "#endif\n\n#endif\n"


def macro(kind, m, gen):
    name = "cn_%s_%s" % (kind.prefix, m.c)
    count = len(kind.first) + sum(len(p.positional()) for p in m.params if not p.has_default)
    if not count:
        args = "CN_OPTS(%s_opts, __VA_ARGS__)" % name
    else:
        k = "" if count == 1 else str(count)
        args = "CN_HEAD%s(__VA_ARGS__, ), CN_OPTS(%s_opts, CN_TAIL%s(__VA_ARGS__, ))" % (k, name, k)
    return "#define %s(...) \\\n  %s_with(%s)\n" % (name, name, args)


def body(kind, m, gen):
    name = "cn_%s_%s" % (kind.prefix, m.c)
    decls, values = [], []
    for p in m.params:
        expr, need = p.value()
        values.append(expr)
        decls += need
    modules = [p for p in m.params if p.base == "Module"]
    out = ["  %s\n" % d for d in decls]
    if m.options:
        out.append("  %s_opts room;\n  const %s_opts *o = opts;\n" % (name, name))
        out.append("  if (!o || o->size != sizeof *o || o->guard) "
                   "o = cn_opts_read(&room, sizeof room, opts, \"%s\");\n" % m.name)
        out.append("  if (!o) return NULL;\n")
    args = "NULL, 0"
    if values:
        out.append(gen.wrap_call("  cn_value args[] = {", values, "};") + "\n")
        args = "args, %d" % len(values)
    call = kind.make.format(name='"%s"' % m.name, args=args)
    if not modules:
        return "".join(out) + "  return %s;\n" % call
    out.append("  %smade = %s;\n" % (kind.returns, call))
    out += ["  cn_module_release(%s%s);\n" % ("o->" if p.has_default else "", p.c) for p in modules]
    return "".join(out) + "  return made;\n"


def source(kind, makers, gen):
    bodies = "\n".join("%s\n{\n%s}\n" % (prototype(kind, m, gen, ")"), body(kind, m, gen)) for m in makers)
    name = os.path.basename(kind.source)
    out = [banner(name, "the bodies of " + kind.what.replace("the ", "", 1), kind.folder), "\n"]
    if "HUGE_VAL" in bodies or "(double)NAN" in bodies:
        out.append("#include <math.h>\n")
    out.append("#include <cairn/ext/options.h>\n#include <cairn/%s>\n\n" % kind.header)
    return "".join(out) + bodies


# ---- an optimiser's settings as its code reads them ----

# Type of the field, and its value in the place of one argument; of lists the numbers themselves.
READ = {"float": ("double %s", "a[%d].u.f"), "int": ("int64_t %s", "a[%d].u.i"), "bool": ("bool %s", "a[%d].u.i != 0"),
        "str": ("const char *%s", "a[%d].u.s"), "float[]": ("const double *%s", "a[%d].u.fs"),
        "int[]": ("const int64_t *%s", "a[%d].u.is")}
ABSENT = {"int": "CN_NONE", "str": "NULL"}


def settings_struct(m, gen):
    name = "cni_%s_settings" % m.c
    fields, values = [], []
    for i, p in enumerate(m.params):
        field, value = READ[p.base + ("" if p.list is None else "[]")]
        value = value % i
        if p.optional:
            value = "a[%d].tag ? %s : %s" % (i, value, ABSENT[p.base])
        fields.append("  %s;%s\n" % (field % p.name, " /* %s */" % p.type if p.optional or p.list is not None else ""))
        values.append(".%s = %s" % (p.name, value))
    return "typedef struct %s {\n%s} %s;\nstatic inline %s %s_of(const cn_value *a)\n{\n%s\n}\n" % (
        name, "".join(fields), name, name, name, gen.wrap_call("  return (%s){" % name, values, "};"))


def settings(kind, makers, gen):
    out = [banner("settings.gen.h", "the settings of each optimiser by their names", kind.folder, """
 *
 * cni_NAME_settings_of(a) reads a group's arguments, which stand in the order of the signature. An int that is None is
 * CN_NONE, a text NULL; lists point into the arguments."""),
           "#ifndef CNI_OPTIM_SETTINGS_GEN_H\n#define CNI_OPTIM_SETTINGS_GEN_H\n\n#include <cairn/ext/op.h>\n"]
    return "".join(out + ["\n" + settings_struct(m, gen) for m in makers] + ["\n#endif\n"])


def generate(root, gen):
    """All files of all kinds that have rows; gen: opgen, for what the writers share."""
    files = {}
    for kind in KINDS:
        makers = read_makers(root, kind)
        if makers:
            files["include/cairn/" + kind.header] = header(kind, makers, gen)
            files[kind.source] = source(kind, makers, gen)
        if makers and kind.result == "Optimizer":
            files[kind.folder + "/settings.gen.h"] = settings(kind, makers, gen)
    return files
