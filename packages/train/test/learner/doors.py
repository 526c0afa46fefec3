"""The doors of examples/train: one tool reads the code, and the reward is the share of letters that are right."""
from concurrent.futures import ThreadPoolExecutor

from learner_process import READ_NOTE, question, sequence

DOORS = {door: "abcd"[door // 4] + "abcd"[door % 4] for door in range(16)}


def attempt(learner, door):
    """The reward of one attempt, and its sequences: more than one where the template changed what came before. None where the
    conversation became too long."""
    messages, sequences = [question(door)], []
    for _ in range(4):
        status, answer = learner.request("/v1/chat/completions", {"messages": messages, "tools": [READ_NOTE]})
        if status == 400 and answer["error"]["code"] == "context_length_exceeded":
            return None
        if status != 200:
            raise AssertionError(f"an attempt got {status}: {answer}")
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
        group = [result for result in results[start : start + attempts] if result]  # a failure is never trained as a zero
        rewards = [reward for reward, _ in group]
        mean = sum(rewards) / max(1, len(group))
        deviation = (sum((reward - mean) ** 2 for reward in rewards) / max(1, len(group))) ** 0.5
        sequences += [{**turn, "advantage": (reward - mean) / (deviation + 1e-4)} for reward, turns in group for turn in turns]
    rewards = [result[0] for result in results if result]
    return sum(rewards) / len(rewards), sequences
