/* compile.hpp: functions that are captured at their first call, and run as graphs later. See cairn/compile.h. */
#ifndef CAIRN_COMPILE_HPP
#define CAIRN_COMPILE_HPP

#include <cairn/autograd.hpp>
#include <cairn/compile.h>

namespace cn {

/* What fn computes, by a program for each kind of call; results carry gradients as fn's do. What fn reads besides its
 * inputs is baked in, but for tensors: parameters are seen as they are at each call.
 *
 *     cn::Compiled forward([&](const std::vector<cn::Tensor> &in) { return std::vector<cn::Tensor>{net(in[0])}; });
 *     cn::Tensor y = forward({x})[0];
 */
class Compiled {
 public:
  using Fn = TensorsFn;
  static constexpr size_t most_results = 64;

  /* fullgraph: code that cannot be captured is an error; otherwise it runs as it is. fast: results may be rounded
   * otherwise than fn's. */
  explicit Compiled(Fn fn, bool fullgraph = false, bool fast = false) : fn_(std::make_shared<Fn>(std::move(fn)))
  {
    cn_compile_opts o = detail::opts<cn_compile_opts>();
    o.fullgraph = fullgraph;
    o.fast = fast;
    compiled_ = {detail::check(cn_compile_with(run, &o)), cn_compiled_free};
  }
  std::vector<Tensor> operator()(const std::vector<Tensor> &inputs) const
  {
    std::vector<cn_tensor *> out(most_results);
    cn_compile_call call = call_of(inputs, out);
    detail::Scope scope;
    detail::check(cn_compiled_call(get(), &call));
    return detail::kept(out.data(), call.noutputs);
  }
  cn_compile_stats stats() const
  {
    cn_compile_stats s{};
    cn_compile_stats_get(&s, sizeof s, get());
    return s;
  }
  /* What would run for these inputs, as text. */
  std::string explain(const std::vector<Tensor> &inputs) const
  {
    std::vector<cn_tensor *> out(most_results);
    cn_compile_call call = call_of(inputs, out);
    detail::Scope scope;
    return detail::take(cn_compiled_explain(get(), &call));
  }
  cn_compiled *get() const noexcept { return compiled_.get(); }

 private:
  cn_compile_call call_of(const std::vector<Tensor> &inputs, std::vector<cn_tensor *> &out) const
  {
    cn_compile_call call{};
    call.inputs = detail::pointers(inputs.data());
    call.ninputs = inputs.size();
    call.outputs = out.data();
    call.noutputs = out.size();
    call.payload = fn_.get();
    return call;
  }
  static int run(cn_compile_call *call)
  {
    return detail::guarded([&] {
      const std::vector<Tensor> made = (*static_cast<Fn *>(call->payload))(detail::kept(call->inputs, call->ninputs));
      if (made.size() > call->noutputs) throw ValueError("compile: more than 64 results");
      for (size_t i = 0; i < made.size(); i++) call->outputs[i] = detail::lend(made[i]);
      call->noutputs = made.size();
      return 0;
    });
  }
  std::shared_ptr<Fn> fn_; /* before what calls it */
  std::shared_ptr<cn_compiled> compiled_;
};

}  // namespace cn

#endif
