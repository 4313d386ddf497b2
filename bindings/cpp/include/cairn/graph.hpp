/* graph.hpp: what a function computes, recorded once and run without it. */
#ifndef CAIRN_GRAPH_HPP
#define CAIRN_GRAPH_HPP

#include <cairn/autograd.hpp>
#include <cairn/graph.h>

namespace cn {

/* A dimension of an input whose size may vary; see cn_free_dim. */
struct FreeDim {
  size_t input = 0;
  int dim = 0;
  std::string symbol;        /* "B": the same size for the same name; or an expression: "T + 1" */
  int64_t min = 0, max = 0;  /* sizes for which the graph must hold; 0: whatever is found */
};

class Graph {
 public:
  using Fn = TensorsFn;

  /* Runs fn once on these inputs, without data: reading a value in it is an error. It must give noutputs tensors. */
  static Graph trace(Fn fn, const std::vector<Tensor> &inputs, size_t noutputs = 1)
  {
    detail::Called call{std::move(fn), inputs.size(), noutputs};
    detail::Scope scope;
    return Graph(cn_trace(detail::Called::run, noutputs, detail::pointers(inputs.data()), inputs.size(), &call));
  }
  /* For all sizes of the free dimensions: fn runs at sizes of the library's choice, without data, and what differs
   * between them is solved. */
  static Graph trace_dynamic(Fn fn, const std::vector<Tensor> &inputs, const std::vector<FreeDim> &dims,
                             size_t noutputs = 1)
  {
    std::vector<cn_free_dim> all;
    for (const FreeDim &d : dims) all.push_back({d.input, d.dim, d.symbol.c_str(), d.min, d.max});
    detail::Called call{std::move(fn), inputs.size(), noutputs};
    detail::Scope scope;
    cn_tensor *const *in = detail::pointers(inputs.data());
    return Graph(cn_trace_dynamic(detail::Called::run, noutputs, in, inputs.size(), all.data(), all.size(), &call));
  }
  /* The same with examples: the dimensions in which they differ are free. */
  static Graph trace_sizes(Fn fn, const std::vector<std::vector<Tensor>> &examples, size_t noutputs = 1)
  {
    std::vector<Tensor> all;
    for (const std::vector<Tensor> &inputs : examples) {
      if (inputs.size() != examples[0].size()) throw ValueError("trace_sizes: examples have as many inputs each");
      all.insert(all.end(), inputs.begin(), inputs.end());
    }
    const size_t n = examples.empty() ? 0 : examples[0].size();
    detail::Called call{std::move(fn), n, noutputs};
    detail::Scope scope;
    cn_tensor *const *inputs = detail::pointers(all.data());
    return Graph(cn_trace_sizes(detail::Called::run, noutputs, inputs, n, examples.size(), &call));
  }
  /* From the text that str() gives; its states are not bound yet. */
  static Graph parse(const std::string &text) { return Graph(cn_graph_parse(text.c_str())); }
  /* From a file that save() wrote; its states are the file's tensors. */
  static Graph load(const std::string &path) { return Graph(cn_graph_load(path.c_str())); }
  void save(const std::string &path) const { detail::check(cn_graph_save(get(), path.c_str())); }
  std::vector<Tensor> operator()(const std::vector<Tensor> &inputs) const
  {
    std::vector<cn_tensor *> out(cn_graph_outputs(get()));
    if (inputs.size() != cn_graph_inputs(get()))
      throw ValueError("graph: it takes " + std::to_string(cn_graph_inputs(get())) + " inputs, not " +
                       std::to_string(inputs.size()));
    detail::Scope scope;
    detail::check(cn_graph_run(out.data(), get(), detail::pointers(inputs.data())));
    return detail::kept(out.data(), out.size());
  }
  size_t nodes() const { return cn_graph_nodes(get()); }
  size_t states() const { return cn_graph_states(get()); } /* tensors from outside that it reads or writes */
  Tensor state(size_t i) const { return Tensor::keep(cn_graph_state(get(), i)); }
  void bind(size_t i, const Tensor &t) { detail::check(cn_graph_bind(get(), i, t.get())); }
  /* Under which name a file has a state: "fc1.weight"; "" where it has none. */
  std::string state_name(size_t i) const
  {
    const char *name = cn_graph_state_name(get(), i);
    return name ? name : "";
  }
  void name_state(size_t i, const std::string &name) { detail::check(cn_graph_name_state(get(), i, name.c_str())); }
  void verify() const { detail::check(cn_graph_verify(get())); }
  std::string str() const { return detail::take(cn_graph_to_string(get())); }
  cn_graph *get() const noexcept { return graph_.get(); }

  explicit Graph(cn_graph *graph) : graph_(detail::check(graph), cn_graph_free) {} /* takes it over */

 private:
  std::shared_ptr<cn_graph> graph_;
};

}  // namespace cn

#endif
