"""Parameters as C++ writes them: types, defaults, the value that goes to C, and structs of named options."""
import math
import textwrap

WIDTH = 116
KEYWORDS = set("""alignas alignof and asm auto bool break case catch char class const constexpr continue
decltype default delete do double dynamic_cast else enum explicit export extern false float for friend goto if
inline int long mutable namespace new noexcept not nullptr operator or private protected public register
requires return short signed sizeof static struct switch template this throw true try typedef typename union
unsigned using virtual void volatile while xor""".split())
DTYPES = {"bool": "CN_BOOL", "uint8": "CN_U8", "int8": "CN_I8", "int16": "CN_I16", "int32": "CN_I32",
          "int64": "CN_I64", "float16": "CN_F16", "bfloat16": "CN_BF16", "float32": "CN_F32", "float64": "CN_F64"}
NUMBERS = {"int": "int64_t", "float": "double", "bool": "bool", "Scalar": "Scalar"}


def safe(name):
    return name + "_" if name in KEYWORDS else name.lstrip("_")


def camel(name):
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def number(value):
    """A default as C++ writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        name = "quiet_NaN" if math.isnan(value) else "infinity"
        return "%sstd::numeric_limits<double>::%s()" % ("-" if value < 0 else "", name)
    return repr(value)


class Arg:
    """One parameter: `name`, `type` as a parameter, `field` type in a struct of options, `default` or None where it
    must be given, `value` for C."""

    def __init__(self, p):
        self.p = p
        self.name = safe(p.name)
        self.default = None if p.required else "{}"
        self.type = self.field = None
        make = "detail::v(%s)"
        if p.kind == "Tensor":
            self.tensor(p)
        elif p.kind == "Module":
            self.type, self.field = "const AnyModule &", "AnyModule"
        elif p.list:
            self.list(p)
            if p.required and not p.fixed:
                make = "detail::list(%s)"
        else:
            self.single(p)
        self.value = make % self.name

    def tensor(self, p):
        if p.list:
            self.type, self.field = "const Tensors &", "std::vector<Tensor>"
        elif p.number:
            self.type, self.field = "const Operand &", "detail::KeptOperand"
        else:
            self.type, self.field = "const Tensor &", "Tensor"

    def list(self, p):
        base = NUMBERS[p.kind]
        if not p.fixed:
            self.type = "const %s &" % ("Ints" if p.kind == "int" else "Floats")
            self.field = "Kept<%s>" % base
            return
        self.field = "DimsOrText<%d>" % p.fixed if p.text_too else (
            "Dims<%d>" % p.fixed if p.kind == "int" else "Each<double, %d>" % p.fixed)
        self.type = "const %s &" % self.field

    def single(self, p):
        if p.kind in NUMBERS:
            self.field = NUMBERS[p.kind]
            if p.optional:
                self.field = "std::optional<%s>" % self.field
            self.type = "const %s &" % self.field if "Scalar" in self.field else self.field + " "
            if self.default and p.default is not None:
                self.default = number(p.default)
            elif self.default:
                self.default = "None"
        elif p.kind == "str":
            self.type, self.field = "Text ", "KeptText"
            if self.default and p.default is not None:
                self.default = '"%s"' % p.default
        elif p.kind == "dtype":
            self.type, self.field = "DType ", "DType"
            if self.default:
                self.default = DTYPES[p.default] if p.default else "CN_DTYPE_NONE"
        else:
            self.type, self.field = "Device ", "Device"

    @property
    def bare(self):
        """The type without const and &."""
        return self.type.replace("const ", "").replace("&", "").strip()

    @property
    def lists(self):
        """The type of its elements where it takes a list in braces."""
        if not self.p.list or self.p.kind not in ("int", "float"):
            return None
        return NUMBERS[self.p.kind]

    @property
    def tag(self):
        """Parameters of different tags tell overloads apart."""
        p = self.p
        return (p.kind, p.list, p.number) if p.kind == "Tensor" else (p.kind, p.list)

    def declared(self, with_default=True):
        text = self.type + self.name
        return text + " = " + self.default if with_default and self.default is not None else text

    def setter(self, struct):
        kind = self.type if self.field != "std::vector<Tensor>" else "const std::vector<Tensor> &"
        return braced("  %s &%s(%svalue)" % (struct, self.name, kind), ["%s_ = value;" % self.name, "return *this;"])

    def member(self):
        start = "" if self.default in ("{}", None) else " = " + self.default
        if not start and self.field in NUMBERS.values():
            start = " = 0" if self.field != "bool" else " = false"
        return "  %s %s_%s;" % (self.field, self.name, start)


def wrap(head, parts, tail, indent=4):
    """head + parts joined by commas + tail, in lines of WIDTH columns."""
    line = head + ", ".join(parts) + tail
    if len(line) <= WIDTH:
        return line
    lines, cur = [], head
    pad = " " * (len(head) if len(head) < 60 else indent)
    for i, part in enumerate(parts):
        part += ", " if i + 1 < len(parts) else tail
        if len(cur) + len(part.rstrip()) > WIDTH and cur.strip():
            lines.append(cur.rstrip())
            cur = pad
        cur += part
    return "\n".join(lines + [cur.rstrip()])


def braced(declaration, statements, indent="  "):
    """A function: on one line where it fits."""
    line = "%s { %s }" % (declaration, " ".join(statements))
    if "\n" not in line and len(line) <= WIDTH:
        return [line]
    return [declaration, indent + "{", *(indent + "  " + s for s in statements), indent + "}"]


def comment(text, indent=""):
    lines = textwrap.wrap(" ".join(text.replace("*/", "* /").split()), WIDTH - 6 - len(indent),
                          break_long_words=False, break_on_hyphens=False)
    return indent + "/* " + ("\n" + indent + " * ").join(lines) + " */"


def options_struct(name, args, first=None, indent="", required=()):
    """A struct with a setter and a field for each of args. first: what a number alone stands for. required: those that
    must be given, all at once by a constructor, where the struct is to say everything."""
    lines = ["struct %s {" % name]
    if required:
        lines += ["  %s() = default;" % name,
                  wrap("  explicit %s(" % name, [a.declared(False) for a in required], ")"),
                  wrap("      : ", ["%s_(%s)" % (a.name, a.name) for a in required] + ["whole_(true)"], " {}", 8),
                  "  const %s &whole() const { return detail::need_whole(*this, whole_); }" % name]
    if first:
        lines += ["  %s(%s) : %s_(%s) {}" % (name, first.declared(), first.name, first.name)]
    for a in args:
        lines += a.setter(name)
    lines += [""] + [a.member() for a in args] + (["  bool whole_ = false;"] if required else []) + ["};"]
    return "\n".join(indent + line if line else line for line in lines)


def result_struct(name, results, indent=""):
    """Several tensors by name, which are a tuple too where one is wanted."""
    kinds = ", ".join(["Tensor"] * len(results))
    lines = ["struct %s {" % name, "  using Tuple = std::tuple<%s>;" % kinds, "  Tensor %s;" % ", ".join(results),
             "  Tuple tuple() const { return {%s}; }" % ", ".join(results),
             "  operator Tuple() const { return tuple(); }", "};"]
    return [indent + line for line in lines]


def head(name, what, more=""):
    guard = "CAIRN_%s_HPP" % name.split(".")[0].upper()
    return """/* %s: %s
 *
 * Generated by tools/bindgen from the tables of ops and classes. Do not edit: change the row in src/ and run
 * `python3 tools/bindgen cpp --json build/default/ops.json --out bindings/cpp/include/cairn`.%s
 */
#ifndef %s
#define %s
""" % (name, what, more, guard, guard)
