import type { Mutation } from './mutation.ts'

/** Which model an agent has: the policy of its rollout, or that of the user. */
export const modelMutations: readonly Mutation[] = [
  {
    name: 'model: a model of one rollout answers in another',
    file: 'packages/core/src/model-origin.ts',
    from: '    if (!withModels.has(rollout)) return rollout',
    to: '    if (made !== rollout) return rollout',
    tests: ['packages/ai-sdk/test/adapter-contract.test.ts'],
  },
  {
    name: 'model: a function as fallback makes a model for each question',
    file: 'packages/core/src/model-origin.ts',
    from: '  if (!made.has(make)) made.set(make, make())',
    to: '  made.set(make, make())',
    tests: ['packages/ai-sdk/test/fallback.test.ts'],
  },
  {
    name: 'model: users get the profile of the policy',
    file: 'packages/langchain/src/chat-model.ts',
    from: '    return this.#outside?.profile ?? this.#fields.profile ?? {}',
    to: '    return this.#fields.profile ?? {}',
    tests: ['packages/langchain/test/fallback.test.ts'],
  },
]
