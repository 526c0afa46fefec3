import type { TrainingAnswer } from '../../src/wire.ts'

/** The run with the rollouts of a step, also of the current one; undefined when there is none. */
export function stepRun({ records, current }: TrainingAnswer, step: number): string | undefined {
  const ended = records.find((record) => record.kind === 'step' && record.step === step)
  if (ended?.kind === 'step') return ended.run
  return current !== null && stepOf(current.run) === step ? current.run : undefined
}

/** The number of the step that a run belongs to; null for an evaluation. */
export function stepOf(run: string): number | null {
  const [, digits] = /^step-(\d+)$/.exec(run) ?? []
  return digits === undefined ? null : Number(digits)
}
