"""Tests of bounded.py: python3 test_bounded.py"""
import unittest

import tiny_learner  # finds the modules of the learner
import bounded


class Bounds(unittest.TestCase):
    def test_what_runs_without_end_is_ended_and_what_follows_is_not(self):
        def forever():
            while True:
                pass

        bounded.SECONDS = 0.2
        try:
            for _ in range(2):
                with self.assertRaisesRegex(bounded.TooMuch, "runs for more than"):
                    bounded.watch_text(forever)
                self.assertEqual(bounded.watch_text(lambda: "text"), "text")
            with self.assertRaisesRegex(bounded.TooMuch, "writes 16777217 characters"):
                bounded.watch_text(lambda: "x" * (bounded.MOST_TEXT + 1))
        finally:
            bounded.SECONDS = 2.0


if __name__ == "__main__":
    unittest.main(verbosity=2)
