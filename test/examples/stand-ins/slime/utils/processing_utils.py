def load_tokenizer(checkpoint, trust_remote_code):
    return checkpoint
