"""torch._inductor's names, for programs that set its options; it is another compiler.

Invariant: options that are set have no effect, which is said once; what it would do raises when it is used."""
from __future__ import annotations

import sys

from .. import _absent
from .._settings_of import Settings
from ..compiler import cudagraph_mark_step_begin as cudagraph_mark_step_begin

__all__ = ["config"]

_WHY = "cairn's compiler is its own (cairn.compile); there is no inductor"
config = sys.modules[__name__ + ".config"] = Settings(__name__ + ".config")
_absent.spaces(__name__, {
    "utils": "run_and_get_code fresh_inductor_cache", "runtime": "", "runtime.cache_dir_utils": "cache_dir",
    "cpu_vec_isa": "pick_vec_isa valid_vec_isa_list VecISA", "codecache": "", "compile_fx": "compile_fx", "lowering":
    "", "ir": "", "virtualized": "", "scheduler": "", "pattern_matcher": "", "custom_graph_pass": "CustomGraphPass",
    "fx_passes": "", "kernel": "", "inductor_prims": "", "cudagraph_trees": "", "async_compile": "", "debug": "",
    "exc": "InductorError CppCompileError"}, _WHY)
aot_compile = _absent.function(__name__, "aot_compile", _WHY)
aoti_compile_and_package = _absent.function(__name__, "aoti_compile_and_package", _WHY)
aoti_load_package = _absent.function(__name__, "aoti_load_package", _WHY)


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, object]:
    """The options that a mode of torch.compile stands for there: none of them is known here."""
    if mode is None and dynamic is None:
        return {name: {} for name in ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")}
    return {}


def list_options() -> list[str]:
    """Options of torch's inductor: none are known here."""
    return []
