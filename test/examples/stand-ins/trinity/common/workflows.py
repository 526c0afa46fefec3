class Workflow:
    is_async = False

    def __init__(self, *, task, model, auxiliary_models=None):
        self.task = task
        self.model = model
