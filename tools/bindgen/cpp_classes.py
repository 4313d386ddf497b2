"""layers.hpp, optimisers.hpp and schedules.hpp: the classes of C that are made by name, as classes of C++.

A layer is a handle: cn::Linear fc(784, 10); y = fc(x). Its arguments with a default may be given by position or by name
in its struct Options; optimisers and schedules have theirs beside them too (SGDOptions), where no op's has the name.
"""
from cpp_types import Arg, braced, comment, head, options_struct, wrap

OWN = {"Sequential", "ModuleList", "ModuleDict", "Residual", "Parallel"}  # module.hpp


class Maker:
    def __init__(self, cls):
        self.cls, self.name = cls, cls.name
        self.args = [Arg(p) for p in cls.params]
        needed = [a for a in self.args if a.default is None]
        for a in self.args[:self.args.index(needed[-1])] if needed else []:
            a.default = None
        self.required = [a for a in self.args if a.default is None]
        self.optional = [a for a in self.args if a.default is not None]

    def declared(self, args, defaults=True):
        return [a.declared(defaults) for a in args]

    def array(self):
        """The values for C, one for each parameter."""
        if not self.args:
            return []
        return [wrap("    const cn_value args[] = {", [a.value for a in self.args], "};", 8)]

    def given(self):
        return "args, %d" % len(self.args) if self.args else "nullptr, 0"

    def passed(self):
        return [a.name if a in self.required else "options.%s_" % a.name for a in self.args]


def call_text(m):
    """forward and the call operator."""
    inputs = [Arg(p) for p in m.cls.inputs]
    results = m.cls.results
    declared = [a.declared() for a in inputs]
    names = [a.name for a in inputs]
    picks = any(p.name == "return_indices" for p in m.cls.params)
    lines = []
    body = [wrap("    const cn_value args[] = {", [a.value for a in inputs], "};", 8),
            "    cn_tensor *out[%d];" % len(results),
            "    detail::forward(out, %d, get(), args, %d);" % (len(results), len(inputs))]
    many = wrap("    return {", ["Tensor::own(out[%d])" % i for i in range(len(results))], "};", 8)
    if len(results) > 1:
        lines += ["  struct Result {", "    Tensor %s;" % ", ".join(results), "  };"]
    if picks:
        lines += [wrap("  Result forward_with_indices(", declared, ") const"), "  {", *body, many, "  }"]
        body[1:] = ["    cn_tensor *out[1];", "    detail::forward(out, 1, get(), args, %d);" % len(inputs)]
    single = picks or len(results) == 1
    result = "Tensor" if single else "Result"
    last = "    return Tensor::own(out[0]);" if single else many
    lines += [wrap("  %s forward(" % result, declared, ") const"), "  {", *body, last, "  }"]
    lines += braced(wrap("  %s operator()(" % result, declared, ") const"), [wrap("return forward(", names, ");", 8)])
    return lines


def layer_text(m):
    lines = [comment(m.cls.doc), "class %s : public detail::Handle {" % m.name, " public:",
             "  using Layer = %s;" % m.name]
    if m.optional:
        lines += [options_struct("Options", m.optional, indent="  ")]
    if m.required:
        lines += ["  %s() = default; /* none yet */" % m.name, "  %s(std::nullptr_t) {}" % m.name]
    start = [wrap("  explicit %s(" % m.name, m.declared(m.args), ")"), "  {", *m.array(),
             '    set(detail::made("%s", %s));' % (m.name, m.given()), "  }"]
    lines += start
    if m.optional:
        lines += [wrap("  explicit %s(" % m.name, m.declared(m.required, False) + ["const Options &options"], ")"),
                  wrap("      : %s(" % m.name, m.passed(), ") {}", 10)]
    lines += ["  explicit %s(detail::Made made) : Handle(made) {}" % m.name, ""]
    return "\n".join(lines + call_text(m) + ["};"]) + "\n"


def layers_text(table):
    lines = [head("layers.hpp", "layers and losses: the modules of torch.nn.", """
 *
 * Each is a handle: a copy is the same layer. One that needs arguments may be declared without them and be
 * assigned later."""), "#include <cairn/module.hpp>", "", "namespace cn {", ""]
    lines += [layer_text(Maker(c)) for c in table.modules if c.name not in OWN]
    return "\n".join(lines) + "\n}  // namespace cn\n\n#endif\n"


def optimiser_text(m):
    options = m.name + "Options"
    lines = [options_struct(options, m.args, first=m.args[0]), comment(m.cls.doc),
             "class %s : public Optimizer {" % m.name, " public:", "  using Options = %s;" % options,
             "  explicit %s(const std::vector<Tensor> &parameters, const Options &options = {})" % m.name,
             "      : Optimizer(make(nullptr, options))", "  {", "    add_param_group(parameters);", "  }",
             "  explicit %s(const Module &net, const Options &options = {}) : Optimizer(make(net.get(), options)) {}"
             % m.name, "", " private:", "  static cn_optim *make(cn_module *net, const Options &options)", "  {",
             wrap("    const cn_value args[] = {", [a.value.replace("(" + a.name, "(" + read(a)) for a in m.args],
                  "};", 8),
             '    return detail::check(cn_optim_make("%s", net, %s));' % (m.name, m.given()), "  }", "};"]
    return "\n".join(lines) + "\n"


def read(a):
    """The field of an options struct as the parameter's type."""
    field = "options.%s_" % a.name
    return "%s(%s)" % ({"KeptText": "Text", "Kept<int64_t>": "Ints", "Kept<double>": "Floats"}[a.field], field) \
        if a.field.startswith("Kept") else field


def schedule_text(m):
    options = m.name + "Options"
    lines = [options_struct(options, m.optional)] if m.optional else []
    first = ["const Optimizer &optimizer"]
    lines += [comment(m.cls.doc), "class %s : public Scheduler {" % m.name, " public:"]
    if m.optional:
        lines.append("  using Options = %s;" % options)
    lines += [wrap("  explicit %s(" % m.name, first + m.declared(m.args), ")"), "      : Scheduler(optimizer)", "  {",
              *m.array(), '    set(cn_schedule_make("%s", optimizer.get(), %s));' % (m.name, m.given()), "  }"]
    if m.optional:
        lines += [wrap("  %s(" % m.name, first + m.declared(m.required, False) + ["const Options &options"], ")"),
                  wrap("      : %s(" % m.name, ["optimizer"] + m.passed(), ") {}", 10)]
    return "\n".join(lines + ["};"]) + "\n"


def rest_text(name, what, classes, text):
    lines = [head(name, what), "#include <cairn/optim.hpp>", "", "namespace cn {", ""]
    lines += [text(Maker(c)) for c in classes]
    return "\n".join(lines) + "\n}  // namespace cn\n\n#endif\n"


def files(table):
    return {"layers.hpp": layers_text(table),
            "optimisers.hpp": rest_text("optimisers.hpp", "the optimisers.", table.optimisers, optimiser_text),
            "schedules.hpp": rest_text("schedules.hpp", "the schedules of learning rates.", table.schedules,
                                       schedule_text)}
