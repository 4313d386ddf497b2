"""keras.mixed_precision: the policy by its older names, and LossScaleOptimizer."""
from .dtype_policies import (DTypePolicy as DTypePolicy, dtype_policy as dtype_policy, dtype_policy as global_policy,
                             set_dtype_policy as set_dtype_policy, set_dtype_policy as set_global_policy)
from .optimizers import LossScaleOptimizer as LossScaleOptimizer

Policy = DTypePolicy

__all__ = ["DTypePolicy", "LossScaleOptimizer", "Policy", "dtype_policy", "global_policy", "set_dtype_policy",
           "set_global_policy"]
