import json

with open("/root/mine/my-agent.jsonl") as lines, open("/root/mine/train.jsonl", "w") as out:
    for line in lines:
        row = json.loads(line)
        prompt = [{"role": "user", "content": row["user_prompt"]}]
        if "system_prompt" in row:
            prompt.insert(0, {"role": "system", "content": row["system_prompt"]})
        out.write(json.dumps({"prompt": prompt, "metadata": row}) + "\n")
