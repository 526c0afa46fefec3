from dataclasses import dataclass, field


@dataclass
class Trajectory:
    name: str
    reward: float


@dataclass
class Episode:
    trajectories: list = field(default_factory=list)
    is_correct: bool = False
