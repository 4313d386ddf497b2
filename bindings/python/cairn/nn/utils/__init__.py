"""Functions about parameters and gradients."""
from . import (parametrizations as parametrizations, parametrize as parametrize, prune as prune, rnn as rnn,
               stateless as stateless)
from .clip_grad import (clip_grad_norm_ as clip_grad_norm_, clip_grad_value_ as clip_grad_value_,
                        clip_grads_with_norm_ as clip_grads_with_norm_, get_total_norm as get_total_norm)
from .convert_parameters import (parameters_to_vector as parameters_to_vector, vector_to_parameters as
                                 vector_to_parameters)
from .weight_norm import (remove_spectral_norm as remove_spectral_norm, remove_weight_norm as remove_weight_norm,
                          spectral_norm as spectral_norm, weight_norm as weight_norm)
from .fusion import (clip_grad_norm as clip_grad_norm, convert_conv2d_weight_memory_format as
                     convert_conv2d_weight_memory_format, convert_conv3d_weight_memory_format as
                     convert_conv3d_weight_memory_format, fuse_conv_bn_eval as fuse_conv_bn_eval, fuse_conv_bn_weights
                     as fuse_conv_bn_weights, fuse_linear_bn_eval as fuse_linear_bn_eval, fuse_linear_bn_weights as
                     fuse_linear_bn_weights, skip_init as skip_init)
