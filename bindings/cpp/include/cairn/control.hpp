/* control.hpp: branches and loops that graphs can hold. See cairn/control.h.
 *
 *     auto y = cn::cond(x.sum() > 0, [&](auto &in) { return std::vector{in[0].sin()}; },
 *                       [&](auto &in) { return std::vector{in[0].cos()}; }, {x});
 *
 * Functions take and give vectors of tensors; tensors that they read from outside are seen, and get gradients, and
 * those that they write to are written to.
 *
 * Place in the flow: a function is called back by the C library, in eager code once for each step, while a graph is
 * captured once or twice in all. Invariant: nothing is thrown through the library: it comes out of the call here. */
#ifndef CAIRN_CONTROL_HPP
#define CAIRN_CONTROL_HPP

#include <cairn/autograd.hpp>
#include <cairn/control.h>

namespace cn {

namespace detail {
inline constexpr size_t most_control_results = 256;

struct ControlFns {
  TensorsFn first, second;
};

inline int run_control(const TensorsFn &fn, cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin)
{
  return guarded([&] {
    const std::vector<Tensor> made = fn(kept(in, nin));
    if (made.size() > *nout) throw ValueError("control: more results than there is room for");
    for (size_t i = 0; i < made.size(); i++) out[i] = lend(made[i]);
    *nout = made.size();
    return 0;
  });
}
inline int control_first(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  return run_control(static_cast<ControlFns *>(payload)->first, out, nout, in, nin);
}
inline int control_second(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  return run_control(static_cast<ControlFns *>(payload)->second, out, nout, in, nin);
}
}  // namespace detail

/* true_fn(operands) where pred, of one element, is not zero, else false_fn(operands). */
inline std::vector<Tensor> cond(const Tensor &pred, TensorsFn true_fn, TensorsFn false_fn,
                                const std::vector<Tensor> &operands)
{
  detail::ControlFns fns{std::move(true_fn), std::move(false_fn)};
  std::vector<cn_tensor *> out(detail::most_control_results);
  size_t n = out.size();
  detail::Scope scope;
  detail::check(cn_cond(out.data(), &n, pred.get(), detail::pointers(operands.data()), operands.size(),
                        detail::control_first, detail::control_second, &fns));
  return detail::kept(out.data(), n);
}

/* carried = body(carried) as long as go_on(carried), of one element, is not zero; max_steps 0: no bound. */
inline std::vector<Tensor> while_loop(TensorsFn go_on, TensorsFn body, const std::vector<Tensor> &carried,
                                      int64_t max_steps = 0)
{
  detail::ControlFns fns{std::move(go_on), std::move(body)};
  std::vector<cn_tensor *> out(carried.size());
  cn_while_opts o = detail::opts<cn_while_opts>();
  o.max_steps = max_steps;
  detail::Scope scope;
  detail::check(cn_while_with(out.data(), detail::pointers(carried.data()), carried.size(), detail::control_first,
                              detail::control_second, &fns, &o));
  return detail::kept(out.data(), out.size());
}

struct ScanOptions {
  int64_t dim = 0, length = 0;
  bool reverse = false;
};
struct Scanned {
  std::vector<Tensor> carry, ys;
};
/* (carries, ys) = combine(carries, a row of each x), inputs and results in this order, for each row. */
inline Scanned scan(TensorsFn combine, const std::vector<Tensor> &init, const std::vector<Tensor> &xs,
                    const ScanOptions &options = {})
{
  detail::ControlFns fns{std::move(combine), nullptr};
  std::vector<cn_tensor *> last(init.size()), ys(detail::most_control_results);
  size_t n = ys.size();
  cn_scan_opts o = detail::opts<cn_scan_opts>();
  o.dim = options.dim;
  o.length = options.length;
  o.reverse = options.reverse;
  detail::Scope scope;
  detail::check(cn_scan_with(last.data(), ys.data(), &n, detail::pointers(init.data()), init.size(),
                             detail::pointers(xs.data()), xs.size(), detail::control_first, &fns, &o));
  return {detail::kept(last.data(), last.size()), detail::kept(ys.data(), n)};
}

/* ys = fn(a row of each x) for each row of the first dimension, stacked. */
inline std::vector<Tensor> map(TensorsFn fn, const std::vector<Tensor> &xs)
{
  detail::ControlFns fns{std::move(fn), nullptr};
  std::vector<cn_tensor *> ys(detail::most_control_results);
  size_t n = ys.size();
  detail::Scope scope;
  detail::check(cn_map(ys.data(), &n, detail::pointers(xs.data()), xs.size(), detail::control_first, &fns));
  return detail::kept(ys.data(), n);
}

}  // namespace cn

#endif
