"""What glibc does with the memory of a process. Imports nothing that takes memory itself."""
import ctypes
import sys


def share_one_heap():
    """By default glibc gives threads heaps of their own, which do not give back what was freed. Each request has a new thread: updates
    would take the memory of several. Called before PyTorch is imported, because its threads would have heaps by then."""
    _glibc("mallopt", -8, 1)  # M_ARENA_MAX


def return_freed_memory():
    """Memory that was freed between live objects stays with the process otherwise, and the next tensors seldom fit there."""
    _glibc("malloc_trim", 0)


def _glibc(function: str, *arguments: int):
    # Windows does not open a library without a name, macOS has no such functions, and other Linuxes have another C library.
    call = getattr(ctypes.CDLL(None), function, None) if sys.platform == "linux" else None
    if call is not None:
        call(*arguments)
