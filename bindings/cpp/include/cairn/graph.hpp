/* graph.hpp: what a function computes, recorded once and run without it. */
#ifndef CAIRN_GRAPH_HPP
#define CAIRN_GRAPH_HPP

#include <cairn/autograd.hpp>
#include <cairn/graph.h>

namespace cn {

class Graph {
 public:
  using Fn = std::function<std::vector<Tensor>(const std::vector<Tensor> &inputs)>;

  /* Runs fn once on these inputs, without data: reading a value in it is an error. It must give noutputs tensors. */
  static Graph trace(Fn fn, const std::vector<Tensor> &inputs, size_t noutputs = 1)
  {
    struct Payload {
      Fn fn;
      size_t ninputs, noutputs;
    } payload{std::move(fn), inputs.size(), noutputs};
    auto call = [](cn_tensor **outputs, cn_tensor *const *given, void *p) {
      return detail::guarded([&] {
        auto *self = static_cast<Payload *>(p);
        const std::vector<Tensor> made = self->fn(detail::kept(given, self->ninputs));
        if (made.size() != self->noutputs)
          throw Error(CN_ERR_VALUE, "trace: the function gave " + std::to_string(made.size()) + " tensors, not " +
                                        std::to_string(self->noutputs));
        for (size_t i = 0; i < made.size(); i++) outputs[i] = detail::lend(made[i]);
        return 0;
      });
    };
    detail::Scope scope;
    cn_graph *made = cn_trace(+call, noutputs, detail::pointers(inputs.data()), inputs.size(), &payload);
    return Graph(detail::check(made), noutputs);
  }
  std::vector<Tensor> operator()(const std::vector<Tensor> &inputs) const
  {
    std::vector<cn_tensor *> out(noutputs_);
    detail::Scope scope;
    detail::check(cn_graph_run(out.data(), get(), detail::pointers(inputs.data())));
    return detail::kept(out.data(), out.size());
  }
  size_t nodes() const { return cn_graph_nodes(get()); }
  std::string str() const { return detail::take(cn_graph_to_string(get())); }
  cn_graph *get() const noexcept { return graph_.get(); }

 private:
  Graph(cn_graph *graph, size_t noutputs) : graph_(graph, cn_graph_free), noutputs_(noutputs) {}
  std::shared_ptr<cn_graph> graph_;
  size_t noutputs_;
};

}  // namespace cn

#endif
