from rllm.eval.types import EvalOutput


class OsmosisEvaluator:
    def evaluate(self, task, episode):
        return EvalOutput(reward=episode.trajectories[0].reward, is_correct=episode.is_correct)
