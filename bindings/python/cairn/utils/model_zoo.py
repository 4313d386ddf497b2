"""torch.utils.model_zoo: the older name of cairn.hub's files of weights."""
from __future__ import annotations

from ..hub import load_state_dict_from_url

__all__ = ["load_url"]

load_url = load_state_dict_from_url
