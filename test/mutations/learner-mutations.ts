import type { Mutation } from './mutation.ts'

const tests = ['packages/train/test/learner/transformers-policy.test.ts']

/** Mutations of a file of the learner: what goes wrong, the text, and what it becomes. */
function mutationsOf(
  file: string,
  changes: readonly (readonly [name: string, from: string, to: string])[],
): Mutation[] {
  return changes.map(([name, from, to]) => ({
    name: `learner: ${name}`,
    file: `packages/train/learner/${file}`,
    from,
    to,
    tests,
  }))
}

/** What the learner does with models of transformers. */
export const learnerModelMutations: readonly Mutation[] = mutationsOf('policy.py', [
  [
    'rows that join a batch are padded on the wrong side',
    '(width - part.shape[-at], 0))',
    '(0, width - part.shape[-at]))',
  ],
  [
    'keys of rows that join are padded on the wrong side',
    'torch.cat([wide(layer.keys, 2), wide(more.keys, 2)])',
    'torch.cat([wide(layer.keys, 2), wide(more.keys, 2).roll(more.keys.shape[-2] - width, -2)])',
  ],
  [
    'rows that join see their padding',
    'wide(state[1], 1), wide(other[1], 1)])',
    'wide(state[1], 1), torch.ones_like(wide(other[1], 1))])',
  ],
  [
    'rows that join have the place of one that runs',
    'torch.cat([state[2], other[2]])',
    'torch.cat([state[2], state[2][:1].expand(len(other[2]), 1)])',
  ],
  [
    'places of tokens count their padding',
    '(mask.cumsum(-1) - 1).clamp(min=0), None, [len',
    'torch.arange(width, device=self.device)[None].expand(len(prompts), -1), None, [len',
  ],
  [
    'prompts see their padding',
    '[[0] * (width - len(p)) + [1] * len(p) for p in prompts]',
    '[[1] * width for p in prompts]',
  ],
  [
    'answers that go on have the cache of those that left',
    'cache.reorder_cache(rows)',
    'cache.reorder_cache(torch.arange(len(rows)))',
  ],
  ['caches of windows are joined', 'return all(map(_is_joinable, state[0].layers))', 'return True'],
  ['the padding of a conversation that has left stays', 'if unused < 64 or', 'if True or'],
  [
    'a conversation that has left takes the last places along',
    'layer.keys[..., unused:, :], layer.values[..., unused:, :]',
    'layer.keys[..., :-unused, :], layer.values[..., :-unused, :]',
  ],
  [
    'sequences that are trained see their padding',
    '[None] < lengths[:, None]',
    '[None] < lengths.max()',
  ],
  [
    'logits of Granite are not scaled',
    'logits / getattr(self.config, "logits_scaling", 1) *',
    'logits *',
  ],
  ['logits of Cohere are not scaled', ' * getattr(self.config, "logit_scale", 1)', ''],
  [
    'logits of Gemma are not capped',
    'return torch.tanh(logits / cap) * cap if cap else logits',
    'return logits',
  ],
  [
    'the penalty of an adapter is that to the policy itself',
    'with self.module.disable_adapter():',
    'with contextlib.nullcontext():',
  ],
  [
    'the penalty of all weights is that to the policy itself',
    'trained, self.causal = self.causal, self.start_model',
    'trained = self.causal',
  ],
  [
    'the start of all weights is the policy when it is first needed',
    'self._load(self.causal.config, True).to(self.device)',
    'copy.deepcopy(self.causal)',
  ],
  ['alpha is the rank', 'lora_alpha=2 * options.lora_rank', 'lora_alpha=options.lora_rank'],
  ['alpha is the same for each rank', 'lora_alpha=2 * options.lora_rank', 'lora_alpha=8'],
  [
    'adapters are scaled by the root of their rank',
    'lora_dropout=0.0,',
    'lora_dropout=0.0, use_rslora=True,',
  ],
  [
    'a merged folder has the adapter twice',
    '(weight.float() + layer',
    '(weight.float() + 2 * layer',
  ],
  ['a merged folder has no adapter', '(weight.float() + layer', '(weight.float() + 0 * layer'],
  [
    'a merged folder shares a matrix of which one half had an adapter',
    'config.tie_word_embeddings = False',
    'pass',
  ],
  [
    'the cache of a token counts all heads',
    '(getattr(self.config, "num_key_value_heads", None) or heads) * head_size',
    'heads * head_size',
  ],
  [
    'the longest conversation of a model is not looked at',
    'min(options.max_length, self.longest, self.border)',
    'options.max_length',
  ],
])

/** How the learner samples and updates. */
export const learnerMutations: readonly Mutation[] = [
  ...mutationsOf('sampling.py', [
    [
      'an answer that lost its place in a full cache is forgotten',
      'self.waiting = parked + more + self.waiting',
      'self.waiting = parked + self.waiting',
    ],
    [
      'an answer that lost its place continues without what it said',
      '[request.prompt + request.ids for request in joining]',
      '[request.prompt for request in joining]',
    ],
    ['the cache has no limit', 'if count and (count + 1) * width > self.most_tokens:', 'if False:'],
    [
      'the cache counts no padding',
      'width = max(width, len(request.prompt) + len(request.ids) + spare)',
      'width = len(request.prompt) + len(request.ids) + spare',
    ],
    [
      'all answers are drawn at the temperature of the first',
      '[request.temperature or 1.0 for request in self.live]',
      '[self.live[0].temperature or 1.0 for request in self.live]',
    ],
    [
      'logprobs are those of temperature 1',
      'return tokens, logprobs.gather(-1',
      'return tokens, torch.log_softmax(logits.float(), -1).gather(-1',
    ],
    [
      'a stop text counts only at the end',
      'any(stop in text for stop in request.stop)',
      'any(text.endswith(stop) for stop in request.stop)',
    ],
    [
      'a stop text counts only within one token',
      'text = self.policy.decode(request.ids)\n            if any',
      'text = self.policy.decode(request.ids[-1:])\n            if any',
    ],
    [
      'only the first stop text counts',
      'any(stop in text for stop in request.stop)',
      'request.stop[0] in text',
    ],
    ['an answer has a token more than its limit', '>= request.most else', '> request.most else'],
    [
      'logits that are not finite are not refused',
      'if not bool(torch.isfinite(sums[:, -1]).all()):',
      'if False:',
    ],
    [
      'logits that are not finite are refused in the first row alone',
      'if not bool(torch.isfinite(sums[:, -1]).all()):',
      'if not bool(torch.isfinite(sums[0, -1])):',
    ],
    [
      'an answer that waited in its middle has the version that ends it',
      'self.trainer.version if request.version is None else request.version',
      'self.trainer.version',
    ],
    [
      'an answer whose client has gone is sampled to its end',
      'if not (request.finish or request.cancelled):',
      'if not request.finish:',
    ],
    ['answers of a seed depend on the others', 'and not self._confirm(request)', 'and False'],
    [
      'requests join while an update waits',
      'and not self.lock.wanted and self.policy.joins(state)',
      'and self.policy.joins(state)',
    ],
  ]),
  ...mutationsOf('training.py', [
    [
      'an update whose loss is not finite is made',
      'if not (math.isfinite(sums["loss"]) and bool(torch.isfinite(norm))):',
      'if False:',
    ],
  ]),
  ...mutationsOf('learner.py', [
    [
      'the message goes on to the last stop text',
      'text[: min(cuts)] if cuts',
      'text[: max(cuts)] if cuts',
    ],
    [
      'answers are longer than the context',
      'most = min(room, limit or room)',
      'most = limit or room',
    ],
  ]),
]
