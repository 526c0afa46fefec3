import importlib.resources
import json
import sys

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

model = "Qwen/Qwen2.5-1.5B-Instruct"  # the gateway has to be started with the same name
length = 4096  # of a whole conversation behind its first prompt, in tokens

ours = {
    "algorithm": {"adv_estimator": "grpo", "use_kl_in_reward": False},
    "data": {"train_batch_size": 8, "max_prompt_length": 2048, "max_response_length": length},
    "actor_rollout_ref": {
        "model": {"path": model, "use_remove_padding": True, "enable_gradient_checkpointing": True},
        "rollout": {
            "name": "vllm",
            "n": 8,  # attempts at each row: a group
            "temperature": 1.0,
            "tensor_model_parallel_size": 1,
            "gpu_memory_utilization": 0.6,
            "log_prob_micro_batch_size_per_gpu": 1,
            "multi_turn": {"format": "hermes"},
            "engine_kwargs": {"vllm": {"enable_auto_tool_choice": True, "tool_call_parser": "hermes"}},
        },
        "actor": {
            "ppo_mini_batch_size": 2,  # rows of the dataset in an update: 2 of 8, so that little is lost
            "ppo_micro_batch_size_per_gpu": 1,
            "optim": {"lr": 1e-6},
            "use_kl_loss": False,
            "entropy_coeff": 0,
            "clip_ratio_low": 0.2,
            "clip_ratio_high": 0.28,
            "fsdp_config": {"param_offload": True, "optimizer_offload": True},
        },
        "ref": {"log_prob_micro_batch_size_per_gpu": 1, "fsdp_config": {"param_offload": True}},
    },
    "trainer": {
        "n_gpus_per_node": 1,
        "nnodes": 1,
        "logger": ["console"],  # add "wandb" after `wandb login`
        "project_name": "osmosis",
        "experiment_name": "my-agent",
        "val_before_train": True,
        "test_freq": 10,
        "save_freq": 10,
        "total_epochs": 50,  # 12 rows in batches of 8: one step in an epoch
    },
    "agentlightning": {
        "agl_base_url": "http://127.0.0.1:8181",
        "agl_key": "change-me",
        "rollout_timeout_seconds": 300,  # the deadline of a rollout
        "trace_aggregator": {
            "level": "trajectory",
            "trajectory_max_prompt_length": 2048,
            "trajectory_max_response_length": length,
        },
    },
}


def rows(file):
    with open(file) as lines:
        return [json.loads(line) for line in lines if line.strip()]


def settings():
    place = str(importlib.resources.files("agentlightning.verl"))
    with initialize_config_dir(config_dir=place, version_base=None):
        config = compose(config_name="config")
    OmegaConf.set_struct(config, False)
    return OmegaConf.merge(config, OmegaConf.create(ours), OmegaConf.from_dotlist(sys.argv[1:]))


if __name__ == "__main__":
    from agentlightning.verl.entrypoint import run_ppo

    run_ppo(settings(), train_dataset=rows("train.jsonl"), val_dataset=rows("val.jsonl"))
