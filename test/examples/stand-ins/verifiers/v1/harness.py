from typing import Generic, TypeVar

ConfigT = TypeVar("ConfigT")


class Harness(Generic[ConfigT]):
    def __init__(self, config):
        self.config = config
