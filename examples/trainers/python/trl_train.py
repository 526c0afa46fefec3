import json

from datasets import Dataset
from transformers import AutoTokenizer
from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer

from trl_rollouts import osmosis_worker


def main():
    model = "Qwen/Qwen2.5-1.5B-Instruct"
    with open("train.jsonl") as lines:
        rows = [json.loads(line) for line in lines]
    dataset = Dataset.from_list([{"prompt": row["prompt"]} for row in rows])
    tokenizer = AutoTokenizer.from_pretrained(model)
    args = AsyncGRPOConfig(
        output_dir="checkpoints",
        vllm_server_base_url="http://127.0.0.1:8000",
        num_generations=8,  # attempts at each row
        max_inflight_tasks=128,  # rollouts at once
        per_device_train_batch_size=4,
        gradient_accumulation_steps=16,
        max_staleness=4,
        learning_rate=1e-6,
        max_steps=100,
        save_steps=10,
    )
    worker = osmosis_worker(
        "http://127.0.0.1:8123", rows, model=model, dataset=dataset, tokenizer=tokenizer, args=args
    )
    trainer = AsyncGRPOTrainer(
        model=model, args=args, train_dataset=dataset, processing_class=tokenizer, rollout_worker=worker
    )
    trainer.train()


if __name__ == "__main__":
    main()
