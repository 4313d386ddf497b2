"""Reads op signatures out of the source text, for the tools that generate code from them.

Finds every `.sig`/`.doc` pair of the cn_op rows in src/ops/**/*.c and every public line of
src/ops/**/pointwise.def. Only text is read, nothing is compiled, so that this works before the library
exists. read_ops(root) gives the ops sorted by name; a Param knows its C forms.
"""
import bisect
import os
import re

MAX_ARGS = 16  # CN_MAX_ARGS
MAX_ALIASES = 4  # CNI_MAX_ALIASES

KEYWORDS = set("""alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl
concept const const_cast constexpr continue decltype default delete do double dynamic_cast else enum explicit
export extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr
operator or or_eq private protected public register reinterpret_cast requires restrict return short signed
sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef typeid
typename typeof union unsigned using virtual void volatile wchar_t while xor xor_eq""".split())
FIELD_TAKEN = {"size", "guard"}  # what every options struct begins with
LOCAL_TAKEN = {"opts", "o", "room", "lists", "args", "dest", "out", "capacity", "results", "status"}


def read_dtypes():
    """The names of element types and their C constants, from the rows of the library's table."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "include", "cairn", "ext", "dtypes.h")
    with open(path, encoding="utf-8") as f:
        return {name: "CN_" + c for c, name in re.findall(r'^  X\((\w+), "(\w+)"', f.read(), re.M)}


DTYPES = read_dtypes()
TYPE = re.compile(r"(Tensor(?:\|Scalar)?|int|float|bool|str|dtype|device|Scalar)(\?)?(\[(\d*)\](\?)?)?$")
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*$", re.I)


class Bad(Exception):
    """A signature or row that cannot be understood; the message says which and why."""


# ---- reading the source ----

def strip_c(text):
    """Blanks comments and preprocessor lines, keeping string literals and line numbers."""
    def blank(m):
        return m.group() if m.group()[0] in "\"'" else re.sub(r"[^\n]", " ", m.group())
    text = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", blank, text, flags=re.M)


def literal(text, pos):
    """The value of the adjacent string literals at pos, or None where there is none."""
    m = re.compile(r'\s*((?:"(?:\\.|[^"\\\n])*"\s*)+)[,}]').match(text, pos)
    if not m:
        return None
    parts = re.findall(r'"((?:\\.|[^"\\\n])*)"', m.group(1))
    escapes = {"n": "\n", "t": "\t"}
    return "".join(re.sub(r"\\(.)", lambda e: escapes.get(e.group(1), e.group(1)), p) for p in parts)


def rows_of_c(path, text):
    """Yields (sig, doc, place) of each designated cn_op row."""
    code = strip_c(text)
    starts = list(re.finditer(r"(?<=[{,])(\s*)\.sig\s*=(?!=)", code))
    lines = [m.start() for m in re.finditer("\n", code)]
    for i, m in enumerate(starts):
        place = "%s:%d" % (path, bisect.bisect(lines, m.end()) + 1)
        sig = literal(code, m.end())
        if sig is None:
            raise Bad("%s: .sig is not a string literal" % place)
        end = starts[i + 1].start() if i + 1 < len(starts) else len(code)
        d = re.compile(r"\.doc\s*=").search(code, m.end(), end)
        doc = literal(code, d.end()) if d else None
        if not doc:
            raise Bad("%s: %s has no .doc string" % (place, sig.split("(")[0]))
        yield sig, doc, place


def rows_of_def(path, text):
    """Yields (sig, doc, place) of each public line; the comment right above it is its doc, a string at its end tags.
    The operands of PWx are PW_OPERANDS_x, in the same file."""
    operands = dict(re.findall(r'^#define PW_OPERANDS_(\w+) "(.*)"$', text, re.M))
    for m in re.finditer(r"^[ \t]*PW((?!P)\w+)\(\s*(\w+)\s*,((?:[^\n]|\n(?=[ \t]))*)\)[ \t]*$", text, re.M):
        if m.group(1) not in operands:
            raise Bad("%s: PW%s(%s): only these are public: PW%s" % (path, m.group(1), m.group(2),
                                                                    ", PW".join(operands)))
        place = "%s:%d" % (path, text.count("\n", 0, m.start()) + 1)
        above = re.search(r"(?:^[ \t]*/\*(?:(?!\*/).)*\*/[ \t]*\n)+\Z", text[:m.start()], re.S | re.M)
        doc = []
        for c in re.findall(r"/\*(.*?)\*/", above.group() if above else "", re.S):
            c = " ".join(re.sub(r"\n[ \t]*\*?", "\n", c).split())
            if "----" not in c and not c.startswith("name "):  # section titles and column titles
                doc.append(c)
        if not doc:
            raise Bad("%s: %s has no /* doc */ above it" % (place, m.group(2)))
        tags = re.search(r',\s*"([\w ]+)"\s*$', m.group(3))
        sig = "%s(%s) -> Tensor ; method inplace" % (m.group(2), operands[m.group(1)])
        yield sig + (" " + tags.group(1) if tags else ""), " ".join(doc), place


def read_ops(root):
    """All ops of the tree, sorted by name."""
    ops = {}
    base = os.path.join(root, "src", "ops")
    for folder, dirs, files in sorted(os.walk(base)):
        dirs.sort()
        for f in sorted(files):
            reader = rows_of_def if f == "pointwise.def" else rows_of_c
            if f.endswith(".gen.c") or not (f.endswith(".c") or f == "pointwise.def"):
                continue
            full = os.path.join(folder, f)
            with open(full, encoding="utf-8") as h:
                text = h.read()
            for sig, doc, place in reader(os.path.relpath(full, root), text):
                op = Op(sig, doc, place)
                if op.name in ops:
                    raise Bad("%s: %s stands already at %s" % (place, op.name, ops[op.name].place))
                ops[op.name] = op
    return [ops[n] for n in sorted(ops)]


# ---- signatures ----

def split_top(text):
    """Splits at the commas outside brackets and quotes."""
    parts, depth, quote, cur = [], 0, "", ""
    for ch in text:
        if quote:
            quote = "" if ch == quote else quote
        elif ch in "'\"":
            quote = ch
        elif ch in "([":
            depth += 1
        elif ch in ")]":
            depth -= 1
        if ch == "," and not depth and not quote:
            parts.append(cur.strip())
            cur = ""
        else:
            cur += ch
    return parts + [cur.strip()] if cur.strip() or parts else []


def safe(name, taken):
    return name + "_" if name in KEYWORDS or name in taken else name


def parse_default(text):
    """A Python literal of the signature as a Python value; dtype names stay strings."""
    if text in ("None", "True", "False"):
        return {"None": None, "True": True, "False": False}[text]
    if text[:1] in "'\"":
        return text[1:-1]
    if text[:1] in "([":
        return [parse_default(p) for p in split_top(text[1:-1]) if p]
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


class Param:
    """One parameter: base type, optional, list (None, 0 any length, N fixed), name, default."""

    def __init__(self, text, where):
        m = re.match(r"(\S+)\s+(\w+)\s*(?:=\s*(.+))?$", text)
        t = m and TYPE.match(m.group(1))
        if not t:
            raise Bad("%s: cannot read parameter '%s'" % (where, text))
        self.type, self.name = m.group(1), m.group(2)
        self.base = t.group(1).split("|")[0]  # Tensor|Scalar is a tensor in C, whose numbers are cn_num
        self.list = None if t.group(3) is None else int(t.group(4) or 0)
        self.optional = bool(t.group(5) if t.group(3) else t.group(2))
        self.has_default = m.group(3) is not None
        self.default_text = m.group(3)
        self.default = parse_default(m.group(3)) if self.has_default else None
        if not NAME.match(self.name):
            raise Bad("%s: bad parameter name '%s'" % (where, self.name))
        inner = t.group(3) and t.group(2)  # Type?[]: elements may be absent
        if "|" in self.type and self.list is not None:
            raise Bad("%s: no such list type: %s" % (where, self.type))
        if (inner and self.base != "Tensor") or (self.list is not None and self.base not in
                                                 ("Tensor", "int", "float")):
            raise Bad("%s: no such list type: %s" % (where, self.type))
        if self.list and self.base != "int":
            raise Bad("%s: only int lists have a fixed length: %s" % (where, self.type))
        self.positional = (self.base == "Tensor" or not self.has_default
                           or (self.base == "int" and self.list is None and self.optional))
        if self.positional and self.base in ("float", "Scalar") and self.list is None and self.optional:
            raise Bad("%s: %s %s needs a default, a C double has no None" % (where, self.type, self.name))
        if not self.positional:
            self.check_default(where)
        self.c = safe(self.name, LOCAL_TAKEN if self.positional else FIELD_TAKEN)
        if not self.positional and self.base == "bool" and self.default is True and not self.optional:
            self.c = "no_" + self.name

    def one_tensor(self, optional=False):
        return self.base == "Tensor" and self.list is None and self.optional == optional

    def make_option(self, where):
        if not self.one_tensor(optional=True) or self.default is not None or not self.has_default:
            raise Bad("%s: opt_%s is for a 'Tensor? %s=None'" % (where, self.name, self.name))
        self.positional = False
        self.c = safe(self.name, FIELD_TAKEN)

    def check_default(self, where):
        d = self.default
        one = {"int": lambda v: isinstance(v, int) and not isinstance(v, bool),
               "float": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
               "bool": lambda v: isinstance(v, bool),
               "str": lambda v: isinstance(v, str),
               "dtype": lambda v: v in DTYPES,
               "device": lambda v: False}
        ok = one.get(self.base, one["float"])
        if d is None:
            good = self.optional
        elif self.list is None:
            good = ok(d)
        elif isinstance(d, list):
            good = all(ok(v) for v in d) and (not self.list or len(d) == self.list)
        else:
            good = ok(d)
        if not good:
            raise Bad("%s: bad default of %s %s: %s" % (where, self.type, self.name, self.default_text))

    def default_list(self):
        """The default of a list as C elements, None for None; a number stands for all of them."""
        d = self.default
        if d is None:
            return None
        d = d if isinstance(d, list) else [d] * (self.list or 1)
        return [c_int(v) if self.base == "int" else c_float(v) for v in d]

    # -- as a C parameter --
    def c_params(self):
        if self.base == "Tensor":
            if self.list is None:
                return ["cn_tensor *%s" % self.c]
            return ["cn_tensor *const *%s" % self.c, "size_t n%s" % self.name]
        if self.list is not None:
            return ["const %s *%s" % ("int64_t" if self.base == "int" else "double", self.c),
                    "size_t n%s" % self.name]
        kind = {"int": "int64_t ", "float": "double ", "Scalar": "double ", "str": "const char *",
                "bool": "int64_t " if self.optional else "bool ", "dtype": "cn_dtype ",
                "device": "cn_device "}
        return [kind[self.base] + self.c]

    # -- as fields of the options struct --
    def c_fields(self):
        if self.list is not None and self.base != "Tensor":
            return ["%s %s" % ("cn_ints" if self.base == "int" else "cn_doubles", self.c)]
        return self.c_params()

    def field_note(self):
        head = "" if self.c == self.name else self.name + ": "
        note = "%s%s, default %s" % (head, self.type.replace("|Scalar", ""), self.default_text)
        if self.c.startswith("no_") and self.default is True:
            return note + "; set this one for False"
        if self.base == "bool" and self.optional:
            return note + "; 1 for True, CN_ZERO for False"
        if self.base in ("int", "float", "Scalar") and self.list is None and self.default != 0:
            return note + "; CN_ZERO for 0"
        return note

    # -- as a cn_value: an expression, and the declarations it needs --
    def value(self):
        return self.positional_value() if self.positional else self.option_value()

    def positional_value(self):
        c = self.c
        if self.base == "Tensor":
            return ("cn_v_tensor(%s)" % c if self.list is None else
                    "cn_v_tensors(%s, n%s)" % (c, self.name)), []
        if self.list is not None:
            expr = "cn_v_%s(%s, n%s)" % ("ints" if self.base == "int" else "floats", c, self.name)
            return ("%s ? %s : cn_v_none()" % (c, expr) if self.optional else expr), []
        if self.base == "int":
            return ("cn_arg_int(%s)" if self.optional else "cn_v_int(%s)") % c, []
        if self.base == "bool":
            return ("cn_opt_bool(%s, cn_v_none())" if self.optional else "cn_v_bool(%s)") % c, []
        if self.base in ("dtype", "device"):
            return ("cn_opt_code(%s)" if self.optional else "cn_v_int(%s)") % c, []
        return ("cn_v_str(%s)" if self.base == "str" else "cn_v_float(%s)") % c, []

    def option_value(self):
        if self.base == "Tensor":
            return "cn_v_tensor(o->%s)" % self.c, []
        f, d = "o->" + self.c, self.default
        if self.list is not None:
            return self.option_list(f)
        if self.base == "int":
            return "cn_v_int(cn_opt_int(%s, %s))" % (f, c_int(d)) if d else "cn_v_int(cn_opt_int(%s, 0))" % f, []
        if self.base in ("float", "Scalar"):
            if d is None:
                return "cn_opt_float_or_none(%s)" % f, []
            return "cn_v_float(cn_opt_float(%s, %s))" % (f, c_float(d)), []
        if self.base == "bool":
            if self.optional:
                other = "cn_v_none()" if d is None else "cn_v_bool(%s)" % str(d).lower()
                return "cn_opt_bool(%s, %s)" % (f, other), []
            return "cn_v_bool(%s%s)" % ("!" if d else "", f), []
        if self.base == "str":
            return ("cn_v_str(%s)" % f if d is None else "cn_v_str(%s ? %s : %s)" % (f, f, c_str(d))), []
        if d is None:
            return "cn_opt_code(%s)" % f, []
        return "cn_v_int(%s ? %s : %s)" % (f, f, DTYPES[d]), []

    def option_list(self, f):
        items, kind = self.default_list(), "int64_t" if self.base == "int" else "double"
        decls, default = [], "NULL"
        if items is not None:
            default = self.name + "_default"
            decls.append("static const %s %s[] = {%s};" % (kind, default, ", ".join(items or ["0"])))
        read = "cn_opt_ints" if self.base == "int" else "cn_opt_doubles"
        return "%s(%s, %s, %d)" % (read, f, default, len(items or [])), decls


def c_int(v):
    return str(v) if abs(v) < 2**31 else "INT64_MIN" if v == -2**63 else "INT64_C(%d)" % v


def c_float(v):
    v = float(v)
    if v != v:
        return "(double)NAN"
    return repr(v) if abs(v) != float("inf") else ("-" if v < 0 else "") + "HUGE_VAL"


def c_str(s):
    return '"%s"' % s.replace("\\", "\\\\").replace('"', '\\"')


class Op:
    """One signature, with everything the writers ask about it."""

    def __init__(self, sig, doc, place):
        self.place, self.doc = place, doc
        m = re.match(r"\s*(\w+)\s*\((.*)\)\s*->\s*(.+?)\s*(?:;\s*([\w\s,]*))?$", sig, re.S)
        if not m or not NAME.match(m.group(1)):
            raise Bad("%s: cannot read signature '%s'" % (place, sig))
        self.name = m.group(1)
        where = "%s: %s" % (place, self.name)
        self.params = [Param(p, where) for p in split_top(m.group(2)) if p != "*"]
        self.tags = set(re.findall(r"\w+", m.group(4) or ""))
        for p in self.params:  # opt_NAME: an optional tensor that is an option in C, not positional
            if "opt_" + p.name in self.tags:
                p.make_option(where)
        self.positional = [p for p in self.params if p.positional]
        self.options = [p for p in self.params if not p.positional]
        self.read_results(m.group(3), where)
        self.inplace = "inplace" in self.tags
        self.aliases = sorted(t[len("alias_"):] for t in self.tags if t.startswith("alias_"))
        if len(self.aliases) > MAX_ALIASES:
            raise Bad("%s: more than %d aliases" % (where, MAX_ALIASES))
        first = self.params[0] if self.params else None
        over = self.params[:1 if self.results is None else len(self.results)]
        if self.inplace and (self.results == "list" or not first or not all(p.one_tensor() for p in over)):
            raise Bad("%s: in-place needs a Tensor to write each result over" % where)
        if len(self.params) > MAX_ARGS:
            raise Bad("%s: more than %d parameters" % (where, MAX_ARGS))
        for names in (self.arg_names(), ["size", "guard"] + self.field_names(),
                      [p.name for p in self.params]):
            twice = {n for n in names if names.count(n) > 1}
            if twice:
                raise Bad("%s: two things are called %s" % (where, ", ".join(sorted(twice))))

    def read_results(self, text, where):
        """results: None for one tensor, "list" for Tensor[], else the names of several."""
        if text in ("Tensor", "Tensor[]"):
            self.results = None if text == "Tensor" else "list"
            return
        if not (text.startswith("(") and text.endswith(")")):
            raise Bad("%s: cannot read result '%s'" % (where, text))
        self.results = []
        for i, part in enumerate(split_top(text[1:-1])):
            m = re.match(r"Tensor(?:\s+(\w+))?$", part)
            if not m:
                raise Bad("%s: cannot read result '%s'" % (where, part))
            self.results.append(safe(m.group(1) or "out%d" % i, LOCAL_TAKEN))

    def out_params(self):
        if self.results == "list":
            return ["cn_tensor **out", "size_t capacity"]
        return ["cn_tensor **%s" % r for r in self.results or []]

    def c_params(self, inplace=False):
        ps = [] if inplace and self.results else self.out_params()
        ps += [c for p in self.positional for c in p.c_params()]
        return ps + (["const cn_%s_opts *opts" % self.name] if self.options else [])

    def arg_names(self, inplace=False):
        return [re.search(r"(\w+)$", p).group(1) for p in self.c_params(inplace)]

    def field_names(self):
        return [re.search(r"(\w+)$", f).group(1) for p in self.options for f in p.c_fields()]

    def fixed_lists(self):
        return any(p.list for p in self.params)

    def returns(self):
        return "cn_tensor *" if self.results is None else "int "

    def function(self, inplace=False):
        if self.options:
            return "cn_%s_inplace_with" % self.name if inplace else "cn_%s_with" % self.name
        return "cn_%s_" % self.name if inplace else "cn_%s" % self.name
