import type { JsonObject } from '@osmosis/platform'

/** The two kinds of hosted runs, by the names of their commands. */
export type RunKind = 'eval' | 'train'

/** Names of each kind on the platform and in a workspace. */
export const runKinds = {
  eval: { route: 'eval-runs', list: 'eval_runs', one: 'eval_run', config: 'eval' },
  train: {
    route: 'training-runs',
    list: 'training_runs',
    one: 'training_run',
    config: 'training',
  },
} as const

/** Statuses of runs that have not started: they have no metrics, and nothing to download. */
export const waitingStatuses: readonly string[] = ['pending', 'queued']

/** A run on the platform. */
export interface FoundHostedRun {
  readonly id: string
  readonly name: string | undefined
  readonly status: string
  /** The record that all command lines of Osmosis print. */
  readonly record: JsonObject
  /** The whole answer. */
  readonly answer: JsonObject
}
