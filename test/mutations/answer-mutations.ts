import type { Mutation } from './mutation.ts'

/** What the policy said: the record, and what agents and frameworks see of it. */
export const answerMutations: readonly Mutation[] = []
