import os
import sys

import miles.utils.external_utils.command_utils as U

mine, gpus = "/root/mine", 8

arguments = f"""
--hf-checkpoint {mine}/Qwen3-4B --ref-load {mine}/Qwen3-4B_torch_dist
--load {mine}/checkpoints --save {mine}/checkpoints --save-interval 20

--prompt-data {mine}/train.jsonl --input-key prompt --metadata-key metadata --rollout-shuffle
--num-rollout 100 --rollout-batch-size 8 --n-samples-per-prompt 8 --global-batch-size 64
--rollout-temperature 1 --rollout-max-response-len 4096 --max-seq-len 16384 --balance-data

--custom-generate-function-path miles.rollout.generate_hub.agentic_tool_call.generate
--custom-agent-function-path osmosis_agent.run
--custom-rm-path osmosis_rewards.reward
--dynamic-sampling-filter-path osmosis_rewards.keep_completed
--use-session-server --session-server-port 30000 --tito-model qwen3
--session-message-matcher loose_tool_call

--advantage-estimator grpo --use-kl-loss --kl-loss-coef 0.00 --kl-loss-type low_var_kl
--entropy-coef 0.00 --eps-clip 0.2 --eps-clip-high 0.28
--optimizer adam --lr 1e-6 --lr-decay-style constant --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.98

--tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 1 --context-parallel-size 1
--expert-model-parallel-size 1 --expert-tensor-parallel-size 1
--recompute-granularity full --recompute-method uniform --recompute-num-layers 1
--use-dynamic-batch-size --max-tokens-per-gpu 9216
--attention-dropout 0.0 --hidden-dropout 0.0 --accumulate-allreduce-grads-in-fp32
--attention-softmax-in-fp32 --attention-backend flash

--rollout-num-gpus-per-engine 2 --sglang-mem-fraction-static 0.7
--colocate --actor-num-nodes 1 --actor-num-gpus-per-node {gpus} --num-gpus-per-node {gpus}
"""

names = ["OSMOSIS_SERVER", "OSMOSIS_KEY", "SESSION_HOST"]
U.execute_train(
    train_args=" ".join([*arguments.split(), *sys.argv[1:]]),
    num_gpus_per_node=gpus,
    megatron_model_type="qwen3-4B",
    extra_env_vars={
        "PYTHONPATH": f"/root/Megatron-LM:{mine}:/root/miles",
        **{name: os.environ[name] for name in names if name in os.environ},
    },
)
