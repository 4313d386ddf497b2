"""cairn.amp: mixed precision: autocast, and the scaling of losses."""
from .autocast_mode import (autocast as autocast, custom_bwd as custom_bwd, custom_fwd as custom_fwd,
                            is_autocast_available as is_autocast_available)
from .grad_scaler import GradScaler as GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
