def parse_response(tokenizer, ids):
    raise AssertionError("this tokenizer has no schema")
