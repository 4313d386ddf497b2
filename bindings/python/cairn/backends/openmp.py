"""cairn.backends.openmp: cairn has threads of its own and does not use OpenMP."""
__all__ = ["is_available"]


def is_available() -> bool:
    """False."""
    return False
