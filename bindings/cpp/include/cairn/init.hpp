/* init.hpp: initialisers: the distributions of torch.nn.init, written into a tensor. */
#include <cairn/module.hpp> /* which includes this file, in its place */
#ifndef CAIRN_INIT_HPP
#define CAIRN_INIT_HPP

#include <cmath>

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
inline void dirac_(const Tensor &t, int64_t groups = 1) { detail::check(cn_init_dirac(t.get(), groups)); }
inline void sparse_(const Tensor &t, double sparsity, double std = 0.01)
{
  detail::check(cn_init_sparse(t.get(), sparsity, std));
}
/* What a nonlinearity wants its inputs' deviation multiplied by; param: the slope of leaky_relu. */
inline double calculate_gain(const std::string &nonlinearity, double param = std::nan(""))
{
  const double gain = cn_init_gain(nonlinearity.c_str(), param);
  if (cn_err()) detail::raise(cn_err());
  return gain;
}
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
