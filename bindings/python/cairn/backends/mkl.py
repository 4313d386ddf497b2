"""cairn.backends.mkl: cairn does not use MKL."""
__all__ = ["is_available"]


def is_available() -> bool:
    """False."""
    return False
