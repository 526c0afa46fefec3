import { answerMutations } from './answer-mutations.ts'
import type { Mutation } from './mutation.ts'
import { rewardMutations } from './reward-mutations.ts'
import { rowMutations } from './row-mutations.ts'
import { sandboxMutations } from './sandbox-mutations.ts'
import { trainingMutations } from './training-mutations.ts'
import { wireMutations } from './wire-mutations.ts'

export const mutations: readonly Mutation[] = [
  ...wireMutations,
  ...answerMutations,
  ...rewardMutations,
  ...rowMutations,
  ...sandboxMutations,
  ...trainingMutations,
]
