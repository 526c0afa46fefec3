"""A fake of mlflow: its store is a file."""
import json
import os
from pathlib import Path
from types import SimpleNamespace

from .entities import Metric


class MlflowClient:
    def __init__(self):
        self.file = Path(os.environ["STAND_IN_SERVICE"], "mlflow.json")
        self.store = json.loads(self.file.read_text()) if self.file.exists() else {"experiments": [], "tags": [], "metrics": []}

    def get_experiment_by_name(self, name):
        return SimpleNamespace(experiment_id=name) if name in self.store["experiments"] else None

    def create_experiment(self, name):
        self.store["experiments"].append(name)
        return name

    def search_runs(self, experiments, query):
        assert set(experiments) <= set(self.store["experiments"])
        names = dict.fromkeys(key for key, *_ in self.store["metrics"])
        run = SimpleNamespace(info=SimpleNamespace(run_id="run"), data=SimpleNamespace(metrics=names))
        return [run for tag in self.store["tags"] if query == f"tags.osmosis_training = '{tag}'"]

    def create_run(self, experiment, tags, run_name):
        self.store["tags"].append(tags["osmosis_training"])
        return SimpleNamespace(info=SimpleNamespace(run_id="run"), data=SimpleNamespace(metrics={}))

    def log_param(self, run, key, value):
        pass

    def update_run(self, run, status):
        self.write(status=status)

    def get_metric_history(self, run, name):
        return [Metric(*metric) for metric in self.store["metrics"] if metric[0] == name]

    def log_batch(self, run, metrics):
        assert all("," not in metric.key for metric in metrics)
        self.write(metrics=self.store["metrics"] + metrics)

    def set_terminated(self, run, status):
        self.write(status=status)

    def write(self, **change):
        self.file.write_text(json.dumps({**self.store, **change}))
        self.store.update(change)
