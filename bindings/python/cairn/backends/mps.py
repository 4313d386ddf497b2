"""cairn.backends.mps: Apple's GPUs, which cairn has no backend for."""
__all__ = ["is_available", "is_built", "is_macos13_or_newer", "is_macos_or_newer"]


def is_available() -> bool:
    """False."""
    return False


def is_built() -> bool:
    """False."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:  # unused: major, minor (there is no such backend)
    """False: the question is about the backend, which is not there."""
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:  # unused: minor (there is no such backend)
    """False: the question is about the backend, which is not there."""
    return False
