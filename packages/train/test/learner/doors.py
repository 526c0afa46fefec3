"""The doors of examples/train: one tool reads the code, and the reward is the share of letters that are right."""
from concurrent.futures import ThreadPoolExecutor

from learner_process import question, sequence

DOORS = {door: "abcd"[door // 4] + "abcd"[door % 4] for door in range(16)}


def attempt(learner, door):
    """The reward of one attempt, and its tokens as one sequence."""
    messages, calls = [question(door)], 0
    for _ in range(4):
        answer = learner.chat(messages)
        message = answer["choices"][0]["message"]
        messages.append(message)
        turn = sequence(answer)
        if calls:
            known = len(whole["ids"])
            if turn["ids"][:known] != whole["ids"]:
                raise AssertionError("the second turn does not extend the tokens of the first")
            for name in ("mask", "logprobs"):
                turn[name][:known] = whole[name]
        whole = turn
        if not message.get("tool_calls"):
            break
        calls += 1
        messages += [{"role": "tool", "tool_call_id": call["id"], "content": DOORS[door]} for call in message["tool_calls"]]
    said = message["content"] or ""
    return sum(right == letter for right, letter in zip(DOORS[door], said)) / 2, whole, calls


def attempt_doors(learner, attempts=8):
    """Mean reward, and the sequences with the advantages within their groups."""
    with ThreadPoolExecutor(len(DOORS) * attempts) as pool:
        results = list(pool.map(lambda at: attempt(learner, at // attempts), range(len(DOORS) * attempts)))
    sequences = []
    for start in range(0, len(results), attempts):
        rewards = [reward for reward, _, _ in results[start : start + attempts]]
        mean = sum(rewards) / attempts
        deviation = (sum((reward - mean) ** 2 for reward in rewards) / attempts) ** 0.5
        sequences += [
            {**tokens, "advantage": (reward - mean) / (deviation + 1e-4)} for reward, tokens, _ in results[start : start + attempts]]
    return sum(reward for reward, _, _ in results) / len(results), sequences
