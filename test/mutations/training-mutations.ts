import type { Mutation } from './mutation.ts'

/** The training loop and its learners. */
export const trainingMutations: readonly Mutation[] = []
