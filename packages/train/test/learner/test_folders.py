"""Tests of folders.py: python3 test_folders.py"""
import errno
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import tiny_learner  # finds the modules of the learner
from bodies import Problem
from folders import replacing


class FullDisk(unittest.TestCase):
    def test_is_named_when_it_refuses_the_folder_itself(self):
        with tempfile.TemporaryDirectory() as there:
            target = Path(there, "step", "saved")
            for made in ("step", "saved"):  # the parent, and the temporary folder
                real = Path.mkdir

                def refuse(path, *args, made=made, real=real, **options):
                    if path.name.startswith(made):
                        raise OSError(errno.ENOSPC, "No space left on device", str(path))
                    return real(path, *args, **options)

                with self.subTest(made), mock.patch.object(Path, "mkdir", refuse), self.assertRaises(Problem) as raised:
                    with replacing(target):
                        self.fail("began to write")
                self.assertEqual((raised.exception.status, raised.exception.body["error"]["code"]), (507, "disk_full"))
                self.assertRegex(str(raised.exception), r"^Cannot write to .*saved: the disk is full or has a limit\. \d+ MiB are free there\.")


if __name__ == "__main__":
    unittest.main(verbosity=2)
