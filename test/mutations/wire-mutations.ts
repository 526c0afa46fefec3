import type { Mutation } from './mutation.ts'

const callbacks = {
  file: 'packages/server/src/rollout/callback-bodies.ts',
  tests: ['packages/server/test/several-samples', 'packages/server/test/two-deliveries'],
}
const trace = {
  file: 'packages/server/src/run/run-answer.ts',
  tests: ['packages/server/test/run.test.ts', 'packages/server/test/run-endings.test.ts'],
}
const lifecycle = {
  file: 'packages/protocol/src/lifecycle/rollout-lifecycle.ts',
  tests: ['packages/protocol/test/lifecycle', 'packages/server/test/child/worker-ends.test.ts'],
}
const queueScripts = {
  file: 'packages/bullmq/src/records/script-library.ts',
  tests: ['packages/bullmq/test/lifecycle.test.ts'],
}
const earned = 'Number.isFinite(reward) && !removeSample ? reward : null'

/** What is sent to controllers and trainers, and the states of a rollout. */
export const wireMutations: readonly Mutation[] = [
  {
    name: 'Agent Lightning is called in mode val while it trains',
    file: 'packages/trainer-links/src/agent-lightning.ts',
    from: "isTrain ? 'train' : 'val'",
    to: "'val'",
    tests: ['packages/trainer-links/test/agent-lightning.test.ts'],
    overTheWire: true,
  },
  {
    name: 'negative rewards are 0 in callbacks',
    ...callbacks,
    from: earned,
    to: 'Number.isFinite(reward) && !removeSample ? Math.max(0, reward) : null',
    overTheWire: true,
  },
  {
    name: 'a label of any type is in callbacks',
    ...callbacks,
    from: 'label: labelText(label),',
    to: 'label: label as string,',
  },
  {
    name: 'negative rewards are 0 where a rollout has one reward',
    file: 'packages/server/src/execution/rollout-end.ts',
    from: "const reward = rule === 'mean' ? sum / samples.size : sum",
    to: "const reward = Math.max(0, rule === 'mean' ? sum / samples.size : sum)",
    tests: ['packages/server/test/execution/rollout-end.test.ts'],
    overTheWire: true,
  },
  {
    name: 'the rewards of two samples are exchanged in callbacks',
    ...callbacks,
    from: "reward: status === 'success' ? earnedReward(sample) : null,",
    to: "reward: status === 'success' ? earnedReward([...samples.values()].toReversed()[[...samples.keys()].indexOf(id)] ?? sample) : null,",
    overTheWire: true,
  },
  {
    name: 'a removed sample is shown with its reward',
    ...callbacks,
    from: earned,
    to: 'Number.isFinite(reward) && removeSample !== undefined ? reward : null',
  },
  {
    name: 'extends_previous is always true',
    ...trace,
    from: 'previous === undefined || extendsTokens(previous, call)',
    to: 'true',
  },
  {
    name: 'extends_previous is about messages',
    ...trace,
    from: 'previous === undefined || extendsTokens(previous, call)',
    to: 'call.extendsPrevious',
  },
  {
    name: 'the token ids of a trace are shifted by one',
    ...trace,
    from: 'completion_token_ids: call.completionTokenIds && [...call.completionTokenIds],',
    to: 'completion_token_ids: call.completionTokenIds && call.completionTokenIds.map((id) => id + 1),',
    overTheWire: true,
  },
  {
    name: 'the prompts of a trace lose their last token',
    ...trace,
    from: 'prompt_token_ids: call.promptTokenIds && [...call.promptTokenIds],',
    to: 'prompt_token_ids: call.promptTokenIds && call.promptTokenIds.slice(0, -1),',
    overTheWire: true,
  },
  {
    name: 'the logprobs of a trace are 0',
    ...trace,
    from: 'logprobs: sampledLogprobs(call),',
    to: 'logprobs: sampledLogprobs(call)?.map(() => 0) ?? null,',
    overTheWire: true,
  },
  {
    name: 'lifecycle: a rollout that called the policy is executed again',
    ...lifecycle,
    from: "{ fact: 'calledPolicy', limit: 1,",
    to: "{ fact: 'calledPolicy', limit: 2,",
  },
  {
    name: 'lifecycle: a success counts after a cancel',
    ...lifecycle,
    from: "return yieldsToCancel && position.isCancelled ? 'after_cancel' : next",
    to: 'return next',
  },
  {
    name: 'lifecycle: an abandoned execution is heard',
    ...lifecycle,
    from: "if (execution !== position.execution || next === undefined) return 'stale'",
    to: "if (next === undefined) return 'stale'",
  },
  {
    name: 'lifecycle: a queue hears an abandoned execution',
    ...queueScripts,
    from: "if not to or execution and get('run') ~= tostring(execution) then return nil, 'stale' end",
    to: "if not to then return nil, 'stale' end",
  },
  {
    name: 'lifecycle: a queue lets a success count after a cancel',
    ...queueScripts,
    from: "if transition.yieldsToCancel and get('cancel') then return nil, 'after_cancel' end",
    to: '',
  },
]
