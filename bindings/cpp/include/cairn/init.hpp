/* init.hpp: initialisers: the distributions of torch.nn.init, written into a tensor. */
#ifndef CAIRN_INIT_HPP
#define CAIRN_INIT_HPP

#include <cairn/module.hpp>

namespace cn {

namespace detail {

inline cn_init_kaiming_opts kaiming(double a, const char *mode, const char *nonlinearity)
{
  cn_init_kaiming_opts o = opts<cn_init_kaiming_opts>();
  o.a = a;
  o.mode = mode;
  o.nonlinearity = nonlinearity;
  return o;
}

}  // namespace detail

namespace init {

inline void uniform_(const Tensor &t, double a = 0, double b = 1) { detail::check(cn_init_uniform(t.get(), a, b)); }
inline void normal_(const Tensor &t, double mean = 0, double std = 1)
{
  detail::check(cn_init_normal(t.get(), mean, std));
}
inline void constant_(const Tensor &t, double value) { detail::check(cn_init_constant(t.get(), value)); }
inline void ones_(const Tensor &t) { detail::check(cn_init_ones(t.get())); }
inline void zeros_(const Tensor &t) { detail::check(cn_init_zeros(t.get())); }
inline void eye_(const Tensor &t) { detail::check(cn_init_eye(t.get())); }
inline void xavier_uniform_(const Tensor &t, double gain = 1) { detail::check(cn_init_xavier_uniform(t.get(), gain)); }
inline void xavier_normal_(const Tensor &t, double gain = 1) { detail::check(cn_init_xavier_normal(t.get(), gain)); }
inline void orthogonal_(const Tensor &t, double gain = 1) { detail::check(cn_init_orthogonal(t.get(), gain)); }
inline void trunc_normal_(const Tensor &t, double mean = 0, double std = 1, double a = -2, double b = 2)
{
  detail::check(cn_init_trunc_normal(t.get(), mean, std, a, b));
}
inline void kaiming_uniform_(const Tensor &t, double a = 0, const char *mode = "fan_in",
                             const char *nonlinearity = "leaky_relu")
{
  const cn_init_kaiming_opts o = detail::kaiming(a, mode, nonlinearity);
  detail::check(cn_init_kaiming_uniform_with(t.get(), &o));
}
inline void kaiming_normal_(const Tensor &t, double a = 0, const char *mode = "fan_in",
                            const char *nonlinearity = "leaky_relu")
{
  const cn_init_kaiming_opts o = detail::kaiming(a, mode, nonlinearity);
  detail::check(cn_init_kaiming_normal_with(t.get(), &o));
}

}  // namespace init

}  // namespace cn

#endif
