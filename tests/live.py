"""What the tests with other people's libraries begin with: a Python that has those libraries, or the word that the test is
skipped."""
import importlib.util
import os
import pathlib
import sys

PEERS = pathlib.Path(__file__).resolve().parents[1] / "build" / "peers" / "bin" / "python"
SKIPPED = 77
SPELLED = {"torch": "PyTorch"}


def need(*modules):
    """Goes on where all modules are installed; else starts the program anew with the Python of build/peers, or ends it
    as skipped."""
    missing = [name for name in modules if not importlib.util.find_spec(name)]
    if not missing:
        return
    if os.access(PEERS, os.X_OK) and pathlib.Path(sys.executable).parent != PEERS.parent:
        os.execv(PEERS, [str(PEERS), *sys.argv])
    print(f"skipped: {SPELLED.get(missing[-1], missing[-1])} is not installed")
    sys.exit(SKIPPED)
