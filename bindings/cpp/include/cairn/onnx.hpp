/* onnx.hpp: models in ONNX's files. See cairn/onnx.h and docs/ONNX.md.
 *
 *     cn::Onnx model = cn::Onnx::load("model.onnx");
 *     cn::Tensor logits = model(image);
 *
 * Place in the flow: values of C++ over the C functions. Invariant: a model never changes, and copies share it. */
#ifndef CAIRN_ONNX_HPP
#define CAIRN_ONNX_HPP

#include <cairn/containers.hpp>
#include <cairn/graph.hpp>
#include <cairn/lists.hpp>
#include <cairn/onnx.h>

#include <map>

namespace cn {

/* What an input or output is: a tensor, strings, a sequence of such, a map, or an optional that is empty. */
class OnnxValue {
 public:
  OnnxValue() : OnnxValue(cn_onnx_value_none()) {}
  OnnxValue(const Tensor &t) : OnnxValue(cn_onnx_value_tensor(t.get())) {}
  OnnxValue(const Strings &strings) : OnnxValue(of(strings)) {}
  explicit OnnxValue(const std::vector<OnnxValue> &values) : OnnxValue(of(values)) {}
  explicit OnnxValue(cn_onnx_value *value) : value_(detail::check(value), cn_onnx_value_release) {} /* takes it over */
  static OnnxValue map(const OnnxValue &keys, const OnnxValue &values) /* two vectors */
  {
    return OnnxValue(cn_onnx_value_map(keys.get(), values.get()));
  }

  cn_onnx_kind kind() const noexcept { return cn_onnx_value_kind(get()); }
  Tensor tensor() const /* it must be one */
  {
    cn_tensor *t = cn_onnx_value_as_tensor(get());
    return t ? Tensor::keep(t) : throw TypeError("onnx: the value is no tensor");
  }
  Strings strings() const
  {
    cn_strings held;
    if (!cn_onnx_value_as_strings(&held, get())) throw TypeError("onnx: the value is no strings");
    return Strings(Tensor::keep(held.bytes), Tensor::keep(held.lengths));
  }
  /* Of a sequence its values, of a map its keys and its values; of others none. */
  std::vector<OnnxValue> values() const
  {
    std::vector<OnnxValue> all;
    for (size_t i = 0; i < cn_onnx_value_size(get()); i++)
      all.push_back(OnnxValue(cn_onnx_value_keep(cn_onnx_value_at(get(), i))));
    return all;
  }
  cn_onnx_value *get() const noexcept { return value_.get(); }

 private:
  static cn_onnx_value *of(const Strings &strings)
  {
    const cn_strings held = {strings.bytes().get(), strings.lengths().get()};
    return cn_onnx_value_strings(&held);
  }
  static cn_onnx_value *of(const std::vector<OnnxValue> &values)
  {
    std::vector<cn_onnx_value *> all;
    for (const OnnxValue &value : values) all.push_back(value.get());
    return cn_onnx_value_sequence(all.data(), all.size());
  }
  std::shared_ptr<cn_onnx_value> value_;
};

struct OnnxInfo {
  std::string name;
  cn_onnx_kind kind = CN_ONNX_TENSOR;
  bool optional = false;
  cn_dtype dtype = CN_DTYPE_NONE;    /* none: it is not said, or they are strings */
  bool ranked = false;               /* the shape is said */
  std::vector<int64_t> shape;        /* -1: any */
  std::vector<std::string> symbols;  /* names of sizes; "": none */
};

/* How a graph is written: see cn_onnx_save_opts. */
struct OnnxSave {
  int opset = 0; /* 0: CN_ONNX_OPSET */
  std::vector<std::string> inputs, outputs; /* names, of the first ones */
  cn_onnx_external external = CN_ONNX_EXTERNAL_AUTO;
  bool no_weights = false, weights_as_inputs = false, writes = false, no_folding = false;
  std::string doc;
};

/* Writes a graph as a model. */
inline void onnx_save(const Graph &graph, const std::string &path, const OnnxSave &how = {})
{
  std::vector<const char *> inputs, outputs;
  for (const std::string &name : how.inputs) inputs.push_back(name.c_str());
  for (const std::string &name : how.outputs) outputs.push_back(name.c_str());
  cn_onnx_save_opts opts = {};
  opts.size = sizeof opts;
  opts.opset = how.opset;
  opts.inputs = inputs.data();
  opts.ninputs = inputs.size();
  opts.outputs = outputs.data();
  opts.noutputs = outputs.size();
  opts.external = how.external;
  opts.no_weights = how.no_weights;
  opts.weights_as_inputs = how.weights_as_inputs;
  opts.writes = how.writes;
  opts.no_folding = how.no_folding;
  opts.doc = how.doc.empty() ? nullptr : how.doc.c_str();
  detail::check(cn_onnx_save_with(graph.get(), path.c_str(), &opts));
}

class Onnx {
 public:
  static Onnx load(const std::string &path, Device device = {})
  {
    cn_onnx_opts opts = {};
    opts.size = sizeof opts;
    opts.device = device.number();
    return Onnx(cn_onnx_load_with(path.c_str(), &opts));
  }
  /* folder: where tensors that lie in other files are found; "": there are none. */
  static Onnx read(const std::string &bytes, const std::string &folder = {}, Device device = {})
  {
    cn_onnx_opts opts = {};
    opts.size = sizeof opts;
    opts.device = device.number();
    opts.folder = folder.empty() ? nullptr : folder.c_str();
    return Onnx(cn_onnx_load_memory_with(bytes.data(), bytes.size(), &opts));
  }

  std::vector<OnnxInfo> inputs() const { return infos(cn_onnx_inputs(get()), cn_onnx_input_at); }
  std::vector<OnnxInfo> outputs() const { return infos(cn_onnx_outputs(get()), cn_onnx_output_at); }
  int64_t opset(const std::string &domain = {}) const { return cn_onnx_opset(get(), domain.c_str()); }
  std::string metadata(const std::string &key) const /* "": there is none */
  {
    const char *value = cn_onnx_metadata(get(), key.c_str());
    return value ? value : "";
  }

  /* All outputs for all inputs, in order: tensors. */
  std::vector<Tensor> operator()(const std::vector<Tensor> &given) const
  {
    if (given.size() != cn_onnx_inputs(get()))
      throw ValueError("onnx: the model takes " + std::to_string(cn_onnx_inputs(get())) + " inputs, not " +
                       std::to_string(given.size()));
    std::vector<cn_tensor *> out(cn_onnx_outputs(get()));
    detail::Scope scope;
    detail::check(cn_onnx_run(out.data(), get(), detail::pointers(given.data())));
    return detail::kept(out.data(), out.size());
  }
  Tensor operator()(const Tensor &given) const { return (*this)(std::vector<Tensor>{given}).at(0); }
  /* Values by name: of inputs or any others of the graph; the outputs of these names, or all. */
  std::vector<OnnxValue> run(const std::map<std::string, OnnxValue> &given, const std::vector<std::string> &names) const
  {
    std::vector<const char *> wanted;
    for (const std::string &name : names) wanted.push_back(name.c_str());
    return run(given, wanted.data(), wanted.size());
  }
  std::vector<OnnxValue> run(const std::map<std::string, OnnxValue> &given) const
  {
    return run(given, nullptr, cn_onnx_outputs(get()));
  }

  /* It as a module with weights of its own, to be trained further. */
  AnyModule module() const { return AnyModule(detail::Made{detail::check(cn_onnx_module(get()))}); }
  /* It as a graph for all sizes that it leaves open; of inputs type and sizes count. */
  Graph graph(const std::vector<Tensor> &examples) const
  {
    if (examples.size() != cn_onnx_inputs(get())) throw ValueError("onnx: graph needs a tensor for each input");
    detail::Scope scope;
    return Graph(cn_onnx_graph(get(), detail::pointers(examples.data())));
  }
  cn_onnx *get() const noexcept { return onnx_.get(); }

 private:
  explicit Onnx(cn_onnx *onnx) : onnx_(detail::check(onnx), cn_onnx_free) {}

  template <class At> std::vector<OnnxInfo> infos(size_t n, At at) const
  {
    std::vector<OnnxInfo> all;
    for (size_t i = 0; i < n; i++) {
      cn_onnx_info said;
      detail::check(at(&said, get(), i));
      OnnxInfo info{said.name, said.kind, said.optional, said.dtype, said.ndim >= 0, {}, {}};
      for (int d = 0; d < said.ndim; d++) {
        info.shape.push_back(said.shape[d]);
        info.symbols.push_back(said.symbols[d] ? said.symbols[d] : "");
      }
      all.push_back(info);
    }
    return all;
  }
  std::vector<OnnxValue> run(const std::map<std::string, OnnxValue> &given, const char *const *names, size_t n) const
  {
    std::vector<cn_onnx_feed> feeds;
    for (const auto &one : given) feeds.push_back({one.first.c_str(), one.second.get()});
    std::vector<cn_onnx_value *> made(n);
    detail::Scope scope;
    detail::check(cn_onnx_run_named(made.data(), names, n, get(), feeds.data(), feeds.size()));
    std::vector<OnnxValue> all;
    for (cn_onnx_value *value : made) all.push_back(OnnxValue(value));
    return all;
  }
  std::shared_ptr<cn_onnx> onnx_;
};

}  // namespace cn

#endif
