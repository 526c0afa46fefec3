"""Figures of a training for TensorBoard, Weights & Biases and MLflow."""
import os
import queue
import re
import threading
import time
from pathlib import Path


class Loggers:
    """Each writes in a thread of its own: a slow or unreachable service delays nothing, and gets its records later."""

    def __init__(self, names):
        self.threads = [Logger(name) for name in names]

    def log(self, training, records, ended=None, seconds=0):
        """Takes records of a training; `ended` closes the loggers and says whether it is complete. Waits at most so many seconds for them.
        Returns what went wrong."""
        for thread in self.threads:
            thread.queue.put((training, records, ended))
        end = time.monotonic() + seconds
        for thread in self.threads:
            with thread.queue.all_tasks_done:
                thread.queue.all_tasks_done.wait_for(lambda queue=thread.queue: not queue.unfinished_tasks, max(0, end - time.monotonic()))
        return [problem for thread in self.threads for problem in thread.news()]


class Logger(threading.Thread):
    def __init__(self, name):
        super().__init__(daemon=True, name=name)
        self.queue, self.problem, self.reported = queue.Queue(), None, None
        self.start()

    def run(self):
        service, training, waiting = None, None, []
        while True:
            given, records, ended = self.queue.get()
            training = training or given
            waiting += records
            try:
                if waiting and not service:
                    service = SERVICES[self.name](training)
                while waiting:
                    service.write(**waiting[0])
                    del waiting[0]
                if ended is not None and service:
                    service.close(ended)
                    service = None
                self.problem = None
            except Exception as error:
                self.problem = f"{self.name} does not take the figures of the training, which continues without: {type(error).__name__}: {error}"
            self.queue.task_done()

    def news(self):
        """What is wrong, unless it was reported before."""
        problem, known, self.reported = self.problem, self.reported, self.problem
        return [problem] if problem and problem != known else []


class TensorBoard:
    def __init__(self, training):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            from tensorboardX import SummaryWriter
        folder = Path(training["folder"], "tensorboard")
        for earlier in folder.glob("events.out.tfevents.*"):
            earlier.unlink()  # a process that continues gets all records again
        self.writer = SummaryWriter(str(folder))

    def write(self, at, step, time, values):
        for name, value in values.items():
            self.writer.add_scalar(name, value, step, time)
        self.writer.flush()

    def close(self, ended):
        self.writer.close()


class Wandb:
    """Its rows have the numbers of the records, so that those it has are known."""

    def __init__(self, training):
        import wandb

        self.run = wandb.init(
            id=training["id"], name=training["name"], project=os.environ.get("WANDB_PROJECT", training["project"]), resume="allow",
            dir=os.environ.get("WANDB_DIR", training["folder"]), config=training["config"], settings=wandb.Settings(console="off"))
        self.run.define_metric("*", step_metric="Step")

    def write(self, at, step, time, values):
        if at >= self.run.step:
            self.run.log({"Step": step, **values}, step=at, commit=True)

    def close(self, ended):
        self.run.finish(exit_code=0 if ended else 1)


class MLflow:
    def __init__(self, training):
        from mlflow import MlflowClient

        self.client, name = MlflowClient(), os.environ.get("MLFLOW_EXPERIMENT_NAME", training["project"])
        experiment = self.client.get_experiment_by_name(name)
        place = experiment.experiment_id if experiment else self.client.create_experiment(name)
        found = self.client.search_runs([place], f"tags.osmosis_training = '{training['id']}'")
        if not found:
            found = [self.client.create_run(place, tags={"osmosis_training": training["id"]}, run_name=training["name"])]
            for key, value in training["config"].items():
                self.client.log_param(found[0].info.run_id, key, value)
        self.id = found[0].info.run_id
        self.client.update_run(self.id, status="RUNNING")
        self.written = {(name, metric.step) for name in found[0].data.metrics for metric in self.client.get_metric_history(self.id, name)}

    def write(self, at, step, time, values):
        from mlflow.entities import Metric

        names = {re.sub(r"[^\w\-./: ]", "", name): value for name, value in values.items()}
        metrics = [Metric(name, value, int(time * 1000), step) for name, value in names.items() if (name, step) not in self.written]
        self.client.log_batch(self.id, metrics=metrics)

    def close(self, ended):
        self.client.set_terminated(self.id, "FINISHED" if ended else "KILLED")


SERVICES = {"tensorboard": TensorBoard, "wandb": Wandb, "mlflow": MLflow}
