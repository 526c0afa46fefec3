async def reward(args, samples, **kwargs):
    if isinstance(samples, list):
        return [sample.metadata.get("reward", 0.0) for sample in samples]
    return samples.metadata.get("reward", 0.0)


def keep_completed(args, group, **kwargs):
    attempts = [sample if isinstance(sample, list) else [sample] for sample in group]
    ends = [part.metadata.get("exit_status") for parts in attempts for part in parts]
    return all(end == "completed" for end in ends)
