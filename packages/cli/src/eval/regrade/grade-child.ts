import { errorMessage } from '@osmosis/core'
import type { RolloutGrade, StoredRollout } from '@osmosis/eval'

import { loadGrader, type GraderOrder, type LoadedGrader } from './load-grader.ts'

// `GraderProcess` starts this module: a grader cannot harm the command, and each start loads its sources again.

/** Messages to the process: first the grader to load, then rollouts to grade. */
export type ToGrader =
  | { readonly type: 'load'; readonly order: GraderOrder }
  | { readonly type: 'grade'; readonly id: number; readonly rollouts: readonly StoredRollout[] }

/** Messages from the process. */
export type FromGrader =
  | ({ readonly type: 'loaded' } & Omit<LoadedGrader, 'grade'>)
  | { readonly type: 'failed'; readonly message: string }
  | { readonly type: 'graded'; readonly id: number; readonly grades: readonly RolloutGrade[] }

let grader: LoadedGrader | undefined

function say(message: FromGrader): void {
  process.send?.(message)
}

async function answer(message: ToGrader): Promise<void> {
  if (message.type === 'load') {
    try {
      grader = await loadGrader(message.order)
      const { grade: _, ...facts } = grader
      say({ type: 'loaded', ...facts })
    } catch (error) {
      say({ type: 'failed', message: errorMessage(error) })
    }
  } else if (grader !== undefined) {
    say({ type: 'graded', id: message.id, grades: await grader.grade(message.rollouts) })
  }
}

process.once('disconnect', () => process.exit())
process.on('message', (message: ToGrader) => {
  answer(message).catch((error: unknown) => {
    process.stderr.write(`${errorMessage(error)}\n`)
    process.exit(1)
  })
})
// An unhandled rejection of user code must not end the process: its grades are still valid.
process.on('unhandledRejection', (reason) => {
  process.stderr.write(`warning: unhandled rejection in user code: ${errorMessage(reason)}\n`)
})
