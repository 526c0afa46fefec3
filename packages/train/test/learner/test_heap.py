"""Tests of heap.py: python3 test_heap.py"""
import re
import subprocess
import sys
import unittest
from pathlib import Path

from learner_process import LEARNER, question
from tiny_learner import WithPolicy


@unittest.skipUnless(sys.platform == "linux", "glibc has these heaps")
class Memory(WithPolicy):
    def test_threads_take_memory_from_one_heap(self):
        for at in range(3):
            self.learner.chat([question(at)])
        # The heap of a thread begins at a multiple of 64 MiB, and what it has not used yet cannot be read.
        maps = Path(f"/proc/{self.learner.process.pid}/maps").read_text()
        parts = [(int(start, 16), int(end, 16), mode) for start, end, mode in re.findall(r"^(\w+)-(\w+) (\S+)", maps, re.M)]
        heaps = [hex(start) for (start, end, mode), (rest, stop, unused) in zip(parts, parts[1:])
                 if (mode, unused) == ("rw-p", "---p") and start % 2**26 == 0 == stop % 2**26 and end == rest]
        self.assertEqual(heaps, [])

    def test_returns_memory_that_was_freed_between_live_objects(self):
        code = """
import re, sys
sys.path.insert(0, sys.argv[1])
import heap
def megabytes():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024
blocks = [bytes(100_000) + bytes([at % 256]) for at in range(3000)]
live = blocks[::100]
before = megabytes()
del blocks
freed = megabytes()
heap.return_freed_memory()
print(before - freed, before - megabytes(), len(live))
"""
        ended = subprocess.run([sys.executable, "-c", code, str(LEARNER.parent)], capture_output=True, text=True, check=True)
        freed, returned, _ = map(int, ended.stdout.split())
        self.assertLess(freed, 100)
        self.assertGreater(returned, 200)


if __name__ == "__main__":
    unittest.main(verbosity=2)
