import { answerMutations } from './answer-mutations.ts'
import type { Mutation } from './mutation.ts'
import { rewardMutations } from './reward-mutations.ts'
import { rowMutations } from './row-mutations.ts'
import { sandboxMutations } from './sandbox-mutations.ts'
import { trainingMutations } from './training-mutations.ts'
import { wireMutations } from './wire-mutations.ts'

/** The mutations by area. The tests of an area take minutes. */
export const mutationAreas: Readonly<Record<string, readonly Mutation[]>> = {
  wire: wireMutations,
  answers: answerMutations,
  rewards: rewardMutations,
  rows: rowMutations,
  sandbox: sandboxMutations,
  training: trainingMutations,
}
