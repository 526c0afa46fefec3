/** Queues of BullMQ. */
export const queueNames = { rollouts: 'rollouts', results: 'results' } as const

/** What a job is about; everything else is in the record. */
export interface RolloutJob {
  readonly id: string
}

/** The id of the jobs of a rollout: BullMQ takes neither colons nor whole numbers. */
export function jobIdOf(id: string): string {
  return `r-${id.replaceAll(/[%:]/g, (character) => encodeURIComponent(character))}`
}
