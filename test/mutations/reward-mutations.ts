import type { Mutation } from './mutation.ts'

/** What is rewarded, and what rewards are read from. */
export const rewardMutations: readonly Mutation[] = []
