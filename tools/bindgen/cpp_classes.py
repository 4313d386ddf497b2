"""layers.hpp, optimisers.hpp and schedules.hpp: the classes of C that are made by name, as classes of C++.

A layer is a handle: cn::Linear fc(784, 10); y = fc(x). Its arguments with a default may be given by position or by name
in its struct Options; optimisers and schedules have theirs beside them too (SGDOptions), where no op's has the name.
"""
from cpp_types import Arg, braced, comment, head, options_struct, result_struct, wrap

COPIED = {"encoder_layer", "decoder_layer"}  # modules of which C makes copies
PACKED = {"RNN", "LSTM", "GRU"}  # take sequences of several lengths
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
            "    run(out, %d, args, %d);" % (len(results), len(inputs))]
    many = wrap("    return {", ["Tensor::own(out[%d])" % i for i in range(len(results))], "};", 8)
    if len(results) > 1:
        lines += result_struct("Result", results, "  ")
    if picks:
        lines += [wrap("  Result forward_with_indices(", declared, ") const"), "  {", *body, many, "  }"]
        body[1:] = ["    cn_tensor *out[1];", "    run(out, 1, args, %d);" % len(inputs)]
    single = picks or len(results) == 1
    result = "Tensor" if single else "Result"
    last = "    return Tensor::own(out[0]);" if single else many
    lines += [wrap("  %s forward(" % result, declared, ") const"), "  {", *body, last, "  }"]
    lines += braced(wrap("  %s operator()(" % result, declared, ") const"), [wrap("return forward(", names, ");", 8)])
    return lines + (packed_text(results) if m.name in PACKED else [])


def packed_text(results):
    """The same for packed sequences, see sequence.hpp."""
    states = results[1:]  # h_n, c_n
    declared = ["const Tensor &%s_0 = {}" % s[0] for s in states]
    names = ["%s_0" % s[0] for s in states]
    two = len(states) > 1
    return ["  struct PackedResult {", "    PackedSequence output;", "    Tensor %s;" % ", ".join(states), "  };",
            wrap("  PackedResult forward_packed(", ["const PackedSequence &input"] + declared, ") const"), "  {",
            "    detail::PackedRun made = detail::forward_packed(get(), input, h_0, %s, %s);" % (
                "c_0" if two else "{}", "true" if two else "false"),
            "    return {made.output, %s};" % ", ".join("made." + s for s in states), "  }",
            *braced(wrap("  PackedResult operator()(", ["const PackedSequence &input"] + declared, ") const"),
                    [wrap("return forward_packed(", ["input"] + names, ");", 8)])]


def layer_text(m):
    lines = [comment(m.cls.doc), "class %s : public detail::LayerOf<%s> {" % (m.name, m.name), " public:"]
    if m.args:
        lines += [options_struct("Options", m.required + m.optional, indent="  ", required=m.required)]
    if m.required:
        lines += ["  %s() = default; /* none yet */" % m.name, "  %s(std::nullptr_t) {}" % m.name]
    start = [wrap("  explicit %s(" % m.name, m.declared(m.args), ")"), "  {", *m.array(),
             '    set(detail::made("%s", %s));' % (m.name, m.given()),
             *("    detail::adopt(get(), %s.get());" % a.name for a in m.args if a.name in COPIED), "  }"]
    lines += start
    if m.optional:
        lines += [wrap("  explicit %s(" % m.name, m.declared(m.required, False) + ["const Options &options"], ")"),
                  wrap("      : %s(" % m.name, m.passed(), ") {}", 10)]
    if m.required:
        lines += ["  explicit %s(const Options &options)" % m.name,
                  wrap("      : %s(" % m.name, ["options.whole()." + m.args[0].name + "_"] +
                       ["options.%s_" % a.name for a in m.args[1:]], ") {}", 10)]
    if m.args and m.args[0].lists and len(m.required) < 2:  # in braces it could be another layer that is copied
        lines += ["  explicit %s(std::initializer_list<%s> %s)" % (m.name, m.args[0].lists, m.args[0].name),
                  "      : %s(%s(%s)) {}" % (m.name, m.args[0].bare, m.args[0].name)]
    lines += ["  explicit %s(detail::Made made) : LayerOf(made) {}" % m.name, ""]
    return "\n".join(lines + call_text(m) + ["};"]) + "\n"


def layers_text(table):
    lines = [head("layers.hpp", "layers and losses: the modules of torch.nn.", """
 *
 * Each is a handle: a copy is the same layer. One that needs arguments may be declared without them and be
 * assigned later."""), "#include <cairn/module.hpp>", "", "namespace cn {", ""]
    makers = [Maker(c) for c in table.modules if c.name not in OWN]
    lines += [layer_text(m) for m in makers]
    lines += ["/* Options as PyTorch calls them: nn::Linear(nn::LinearOptions(4, 2).bias(false)). */", "namespace nn {",
              *("using %sOptions = %s::Options;" % (m.name, m.name) for m in makers if m.args), "}  // namespace nn"]
    return "\n".join(lines) + "\n\n}  // namespace cn\n\n#endif\n"


def optimiser_text(m):
    options = m.name + "Options"
    values = wrap("    const cn_value args[] = {", [a.value.replace("(" + a.name, "(" + read(a)) for a in m.args],
                  "};", 8)
    lines = [options_struct(options, m.args, first=m.args[0]), comment(m.cls.doc),
             "class %s : public Optimizer {" % m.name, " public:", "  using Options = %s;" % options,
             "  explicit %s(const std::vector<Tensor> &parameters, const Options &options = {})" % m.name,
             "      : Optimizer(make(nullptr, options))", "  {", "    add_param_group(parameters);", "  }",
             "  explicit %s(const Module &net, const Options &options = {}) : Optimizer(make(net.get(), options)) {}"
             % m.name,
             "  template <class G = ParamGroupOf<Options>> /* made only where it is used */",
             "  explicit %s(const std::vector<G> &groups, const Options &options = {})" % m.name,
             "      : Optimizer(make(nullptr, options))", "  {",
             "    for (const G &group : groups)",
             "      group.options ? add_param_group(group.parameters, *group.options) : "
             "add_param_group(group.parameters);", "  }",
             "  using Optimizer::add_param_group;",
             "  size_t add_param_group(const std::vector<Tensor> &parameters, const Options &options)", "  {",
             values, "    return add_group_with(parameters, args, %d);" % len(m.args), "  }",
             "", " private:", "  static cn_optim *make(cn_module *net, const Options &options)", "  {", values,
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
