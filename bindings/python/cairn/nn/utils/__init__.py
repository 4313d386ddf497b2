"""Functions about parameters and gradients."""
from . import (parametrizations as parametrizations, parametrize as parametrize, rnn as rnn, stateless as stateless)
from .clip_grad import (clip_grad_norm_ as clip_grad_norm_, clip_grad_value_ as clip_grad_value_,
                        clip_grads_with_norm_ as clip_grads_with_norm_, get_total_norm as get_total_norm)
from .convert_parameters import (parameters_to_vector as parameters_to_vector, vector_to_parameters as
                                 vector_to_parameters)
from .weight_norm import (remove_spectral_norm as remove_spectral_norm, remove_weight_norm as remove_weight_norm,
                          spectral_norm as spectral_norm, weight_norm as weight_norm)
