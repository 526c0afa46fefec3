"""Chat templates are programs of strangers: what they may take."""
import contextlib
import ctypes
import threading
import time

SECONDS = 2.0  # of a processor; a long conversation takes some hundredths
MOST_TEXT = 2**24  # characters


class TooMuch(Exception):
    """Raised in a template that takes too long or writes too much."""

    def __init__(self, what="it runs for more than some seconds"):
        super().__init__(what)


class Watch(threading.Thread):
    """Ends what runs too long in other threads. A loop of a template is one of Python, which an exception can end."""

    def __init__(self):
        super().__init__(daemon=True)
        self.lock, self.some, self.running = threading.Lock(), threading.Event(), {}
        self.start()

    def run(self):
        while True:
            self.some.wait()
            time.sleep(SECONDS / 8)
            with self.lock:
                for thread, (clock, began) in list(self.running.items()):
                    if clock() - began > SECONDS:
                        del self.running[thread]
                        _raise_in(thread, TooMuch)
                if not self.running:
                    self.some.clear()

    @contextlib.contextmanager
    def watching(self):
        thread = threading.get_ident()
        clock = _clock_of(thread)
        with self.lock:
            self.running[thread] = clock, clock()
            self.some.set()
        try:
            yield
        finally:
            with self.lock:
                self.running.pop(thread, None)
                _raise_in(thread, None)  # what has not been raised yet must not be raised later


def _raise_in(thread, exception):
    argument = ctypes.py_object(exception) if exception else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), argument)


def _clock_of(thread):
    """Seconds of a processor that the thread has used, so that a busy machine ends nothing; seconds where the system does not count them."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return lambda: time.monotonic() / 10
    clock = time.pthread_getcpuclockid(thread)
    return lambda: time.clock_gettime(clock)


watch = Watch()


def bounded(render):
    """The text that the `render` of a template returns."""
    _bound_operators()
    return watch_text(render)


def watch_text(render):
    with watch.watching():
        text = render()
    if len(text) > MOST_TEXT:
        raise TooMuch(f"it writes {len(text)} characters")
    return text


def _bound_operators():
    """A single operator can take all memory, or hours, and nothing can end it. Those of compiled templates call this one."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment as Environment

    if Environment.intercepted_binops:
        return
    Environment.intercepted_binops = frozenset(["+", "*", "**"])
    compute = Environment.call_binop

    def call_binop(self, context, operator, left, right):
        if operator == "**" and max(abs(left), abs(right)) > 1000:
            raise TooMuch(f"it computes {left} ** {right}")
        sizes = [len(value) for value in (left, right) if isinstance(value, (str, bytes, list, tuple))]
        counts = [value for value in (left, right) if isinstance(value, int)]
        size = sum(sizes) if operator == "+" else max(sizes, default=0) * max(counts, default=0)
        if sizes and size > MOST_TEXT:
            raise TooMuch(f"it makes a value of {size} parts")
        return compute(self, context, operator, left, right)

    Environment.call_binop = call_binop
