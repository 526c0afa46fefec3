import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'

import { platformProblems } from '@osmosis/eval'
import { trainingSettings } from '@osmosis/eval/analysis'
import { expect, it } from 'vitest'

const experiment = `[experiment]
rollout = "multiply"
entrypoint = "main.ts"
model_path = "Qwen/Qwen3.6-35B-A3B"
dataset = "multiply"
`

const everything = {
  eval: `${experiment}branch = "main"
[evaluation]
limit = 200
n = 1
batch_size = 1
pass_threshold = 1.0
agent_workflow_timeout_s = 450
grader_timeout_s = 150.5
[env]
LOG_LEVEL = "info"
_PRIVATE = ""
[secrets]
required = ["SEARCH_API_KEY"]
[advanced]
anything = { goes = true }
`,
  training: `${experiment}commit_sha = "0123abc"
[training]
lr = 1e-6
total_epochs = 1
n_samples_per_prompt = 8
rollout_batch_size = 32
max_prompt_length = 8192
max_response_length = 8192
agent_workflow_timeout_s = 450
grader_timeout_s = 150
[sampling]
rollout_temperature = 1.0
rollout_top_p = 1.0
[checkpoints]
eval_interval = 10
checkpoint_save_freq = 20
[env]
LOG_LEVEL = "info"
[secrets]
required = []
[advanced]
`,
} as const

const kinds = ['eval', 'training'] as const

it('the platform refuses the keys that only local trainings have, each by its name', () => {
  const text = everything.training.replace(
    '[training]',
    `[training]
loss = "gspo"
clip_low = 0.1
clip_high = 5
importance_cap = 1.5
kl = 0.01
minibatches = 4
max_grad_norm = 0.2
weight_decay = 0.1
normalize_advantages = false
mask_cut_answers = true
lr_schedule = "cosine"
lr_warmup_steps = 10
passes = 2
curriculum = true
stop_at_reward = 0.9
patience = 5
max_staleness = 1
precision = "float32"
lora_targets = "q_proj,v_proj"
sampling_batch = 8
micro_batch_tokens = 512`,
  )
  expect(platformProblems('training', text)).toEqual(
    Object.keys(trainingSettings).map(
      (key) => `training.${key}: only local trainings have it; remove it`,
    ),
  )
})

it.each([
  'loss = "GRPO"',
  'loss = 1',
  'clip_low = 1.1',
  'importance_cap = 0',
  'max_grad_norm = 0',
  'weight_decay = "0"',
  'normalize_advantages = "yes"',
  'lr_warmup_steps = -1',
  'passes = 0',
  'stop_at_reward = "all"',
  'precision = "int4"',
  'lora_targets = "q_proj, v_proj"',
])('%s is no setting of a training', (line) => {
  const text = everything.training.replace('[training]', `[training]\n${line}`)
  const [key = ''] = line.split(' ')
  expect(platformProblems('training', text)[0]).toMatch(new RegExp(`^training\\.${key}: must be `))
})

it.each(kinds)('the platform accepts every section and key that %s configs have', (kind) => {
  expect(platformProblems(kind, everything[kind])).toEqual([])
})

it.each(['eval', 'training'] as const)(
  'the platform requires an experiment in %s configs',
  (kind) => {
    expect(platformProblems(kind, '[secrets]\nrequired = []\n')).toEqual(
      ['rollout', 'entrypoint', 'model_path', 'dataset'].map((key) => `experiment.${key}: missing`),
    )
  },
)

it('the platform requires [secrets] in eval configs but not in training configs', () => {
  expect(platformProblems('eval', experiment)).toEqual([
    'secrets: missing; add [secrets] with required = [] for none',
  ])
  expect(platformProblems('eval', `${experiment}[secrets]\nrequired = []\n`)).toEqual([])
  expect(platformProblems('training', experiment)).toEqual([])
})

it.each([
  [
    'eval',
    '[training]\nlr = 1',
    'training: unknown section; known: experiment, columns, evaluation, workflow, env, secrets, advanced',
  ],
  [
    'eval',
    '[sampling]',
    'sampling: unknown section; known: experiment, columns, evaluation, workflow, env, secrets, advanced',
  ],
  [
    'eval',
    '[evaluation]\nlr = 1',
    'evaluation.lr: unknown key; known: limit, n, batch_size, pass_threshold, agent_workflow_timeout_s, grader_timeout_s',
  ],
  ['eval', '[evaluation]\nn = true', 'evaluation.n: must be a positive integer, got true'],
  ['eval', '[evaluation]\nn = 0', 'evaluation.n: must be a positive integer, got 0'],
  [
    'training',
    '[evaluation]',
    'evaluation: unknown section; known: experiment, columns, training, sampling, checkpoints, workflow, env, secrets, advanced',
  ],
  ['training', '[training]\nlr = 0', 'training.lr: must be a positive number, got 0'],
  ['training', '[training]\nlr = "1e-6"', 'training.lr: must be a positive number, got "1e-6"'],
  [
    'training',
    '[training]\nepochs = 1',
    'training.epochs: unknown key; known: lr, total_epochs, n_samples_per_prompt, rollout_batch_size, max_prompt_length, max_response_length, agent_workflow_timeout_s, grader_timeout_s, loss, clip_low, clip_high, importance_cap, kl, minibatches, max_grad_norm, weight_decay, normalize_advantages, mask_cut_answers, lr_schedule, lr_warmup_steps, passes, curriculum, stop_at_reward, patience, max_staleness, precision, lora_targets, sampling_batch, micro_batch_tokens',
  ],
  [
    'training',
    '[sampling]\nrollout_top_p = 1.5',
    'sampling.rollout_top_p: must be a number above 0, at most 1, got 1.5',
  ],
  [
    'training',
    '[sampling]\nrollout_temperature = -1',
    'sampling.rollout_temperature: must be a number of at least 0, got -1',
  ],
  [
    'training',
    '[checkpoints]\neval_interval = 1.5',
    'checkpoints.eval_interval: must be a positive integer, got 1.5',
  ],
  [
    'training',
    '[env]\nlower = "1"',
    'env.lower: must be named in capitals, digits and underscores',
  ],
  ['training', '[secrets]\nrequired = "A"', 'secrets.required: must be a list, got string'],
  [
    'training',
    '[secrets]\nrequired = []\nother = []',
    'secrets.other: unknown key; known: required',
  ],
  ['eval', '[secrets]', 'secrets.required: missing; write required = [] for none'],
  ['training', '[secrets]', 'secrets.required: missing; write required = [] for none'],
] as const)('the platform refuses, in %s configs, %s', (kind, section, problem) => {
  const secrets = section.includes('[secrets]') ? '' : '\n[secrets]\nrequired = []'
  expect(platformProblems(kind, `${experiment}${section}${secrets}\n`)).toEqual([problem])
})

it('text that is not TOML has one problem, with its place and without the text', () => {
  expect(platformProblems('training', '[env]\nKEY = sk-proj-1\n')).toEqual([
    'line 2, column 7: Invalid TOML document: invalid value',
  ])
})

const examples = path.resolve(import.meta.dirname, '../../../../examples/configs')

it.each(globSync('{eval,training}/*.toml', { cwd: examples }))(
  'the platform accepts the example %s',
  (file) => {
    const kind = file.startsWith('eval') ? 'eval' : 'training'
    expect(platformProblems(kind, readFileSync(path.join(examples, file), 'utf8'))).toEqual([])
  },
)

it('keys of local trainings are problems of the platform only', () => {
  const text = `${experiment}[training]\nmax_staleness = 1\nlr = 1\n`
  const refused = ['training.max_staleness: only local trainings have it; remove it']
  expect(platformProblems('training', text)).toEqual(refused)
  expect(platformProblems('training', text, { allowLocal: true })).toEqual([])
})

it.each([
  ['eval_interval', 'did you mean eval_interval in [checkpoints]?'],
  ['checkpoint_save_frq', 'did you mean checkpoint_save_freq in [checkpoints]?'],
  ['rollout_temperature', 'did you mean rollout_temperature in [sampling]?'],
  ['lrr', 'did you mean lr?'],
])('the key %s of a training is found where it belongs', (key, advice) => {
  const text = `${experiment}[training]\n${key} = 1\n`
  expect(platformProblems('training', text)).toEqual([`training.${key}: unknown key; ${advice}`])
})
