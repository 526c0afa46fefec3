import json

with open("my-agent.jsonl") as lines, open("train.jsonl", "w") as out:
    for line in lines:
        row = json.loads(line)
        prompt = [{"role": "user", "content": row["user_prompt"]}]
        if "system_prompt" in row:
            prompt.insert(0, {"role": "system", "content": row["system_prompt"]})
        made = {"prompt": prompt, "label": row["ground_truth"], "metadata": row.get("metadata", {})}
        out.write(json.dumps(made) + "\n")
