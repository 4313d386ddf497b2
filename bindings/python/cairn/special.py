"""Special functions: torch.special's names, which are mostly second names of ops that have another."""
from . import _C, _forms
from ._names import SPACES

for _name in SPACES.get("special", ()):
    globals()[_name.removeprefix("special_")] = getattr(_C, _name)

for _name, _op in {"expit": "sigmoid", "gammaln": "lgamma", "psi": "digamma", "digamma": "digamma", "erf": "erf",
                   "erfc": "erfc", "erfinv": "erfinv", "exp2": "exp2", "expm1": "expm1", "log1p": "log1p",
                   "logit": "logit", "logsumexp": "logsumexp", "round": "round", "sinc": "sinc", "xlogy": "xlogy",
                   "softmax": "softmax", "log_softmax": "log_softmax", "polygamma": "polygamma", "i0": "i0",
                   "multigammaln": "mvlgamma", "gammainc": "igamma", "gammaincc": "igammac",
                   "modified_bessel_i0": "i0", "modified_bessel_i1": "special_i1"}.items():
    _function = getattr(_forms, _op, None) or getattr(_C, _op, None)
    if _function is not None:
        globals()[_name] = _function
