"""PassManager: several passes, one after the other, until nothing changes."""
from __future__ import annotations

from typing import Any, Callable

from .pass_base import PassResult

__all__ = ["PassManager"]


class PassManager:
    """Calls passes in order, `steps` times or until none changes the module; checks run after each."""

    def __init__(self, passes: list[Callable[[Any], Any]] | None = None, constraints: list[Any] | None = None,
                 steps: int | None = None, run_checks_after_each_pass: bool = False,
                 suppress_check_failures: bool = False) -> None:
        self.passes = list(passes or [])
        self.constraints = list(constraints or [])
        self.steps = steps or 1
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures
        self._checks: list[Callable[[Any], None]] = []

    def add_pass(self, _pass: Callable[[Any], Any]) -> None:
        self.passes.append(_pass)

    def add_constraint(self, constraint: Callable[[Any, Any], bool]) -> None:
        """constraint(a, b): may b run after a?"""
        self.constraints.append(constraint)

    def add_checks(self, check: Callable[[Any], None]) -> None:
        self._checks.append(check)

    def check(self, module: Any) -> None:
        """Raises where a check does."""
        for check in self._checks:
            check(module)

    def validate_constraints(self) -> None:
        """Raises where the order of passes breaks a constraint."""
        for i, a in enumerate(self.passes):
            for b in self.passes[i + 1:]:
                if not all(allowed(a, b) for allowed in self.constraints):
                    raise RuntimeError("pass schedule constraint violated: %r before %r" % (a, b))

    def __call__(self, module: Any) -> PassResult:
        self.validate_constraints()
        self._verify(module)
        modified = False
        for _ in range(self.steps):
            changed = False
            for one in self.passes:
                result = one(module)
                if not isinstance(result, PassResult):
                    raise TypeError("The result of the pass %r should be type PassResult." % (one,))
                module, changed = result.graph_module, changed or result.modified
                module.recompile()
                if self.run_checks_after_each_pass:
                    self._verify(module)
            modified = modified or changed
            if not changed:
                break
        return PassResult(module, modified)

    def _verify(self, module: Any) -> None:
        try:
            self.check(module)
        except Exception:
            if not self.suppress_check_failures:
                raise
