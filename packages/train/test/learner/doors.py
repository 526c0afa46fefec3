"""The doors of examples/train: one tool reads the code, and the reward is the share of letters that are right."""
from concurrent.futures import ThreadPoolExecutor

from learner_process import question, sequence

DOORS = {door: "abcd"[door // 4] + "abcd"[door % 4] for door in range(16)}


def attempt(learner, door):
    """The reward of one attempt, and its sequences: more than one where the template changed what came before."""
    messages, sequences = [question(door)], []
    for _ in range(4):
        answer = learner.chat(messages)
        message = answer["choices"][0]["message"]
        messages.append(message)
        turn = sequence(answer)
        if sequences and turn["ids"][: len(sequences[-1]["ids"])] == sequences[-1]["ids"]:
            before = sequences.pop()
            for name in ("mask", "logprobs"):
                turn[name][: len(before["ids"])] = before[name]
        sequences.append(turn)
        if not message.get("tool_calls"):
            break
        messages += [{"role": "tool", "tool_call_id": call["id"], "content": DOORS[door]} for call in message["tool_calls"]]
    said = message["content"] or ""
    return sum(right == letter for right, letter in zip(DOORS[door], said)) / 2, sequences


def attempt_doors(learner, attempts=8):
    """Mean reward, and the sequences with the advantages within their groups."""
    with ThreadPoolExecutor(len(DOORS) * attempts) as pool:
        results = list(pool.map(lambda at: attempt(learner, at // attempts), range(len(DOORS) * attempts)))
    sequences = []
    for start in range(0, len(results), attempts):
        rewards = [reward for reward, _ in results[start : start + attempts]]
        mean = sum(rewards) / attempts
        deviation = (sum((reward - mean) ** 2 for reward in rewards) / attempts) ** 0.5
        sequences += [
            {**turn, "advantage": (reward - mean) / (deviation + 1e-4)}
            for reward, turns in results[start : start + attempts] for turn in turns]
    return sum(reward for reward, _ in results) / len(results), sequences
