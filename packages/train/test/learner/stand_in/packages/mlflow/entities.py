from collections import namedtuple

Metric = namedtuple("Metric", "key value timestamp step")
