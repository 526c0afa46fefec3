"""A fake of wandb: its service is a folder, with a file for each run. It does not answer while there is none."""
import json
import os
from pathlib import Path


def init(id, name, project, resume, dir, config, settings):
    if not Path(os.environ["STAND_IN_SERVICE"]).is_dir():
        raise ConnectionError("no route to host")
    return Run(Path(os.environ["STAND_IN_SERVICE"], f"{project}-{id}.jsonl"))


class Settings:
    def __init__(self, console):
        assert console == "off"


class Run:
    def __init__(self, file):
        self.file = file
        file.touch()

    @property
    def step(self):
        return len(self.file.read_text().splitlines())

    def define_metric(self, name, step_metric):
        pass

    def log(self, values, step, commit):
        assert commit and step == self.step, "rows follow each other"
        with open(self.file, "a") as file:
            print(json.dumps(values), file=file)

    def finish(self, exit_code):
        pass
