import { registerHooks } from 'node:module'
import { fileURLToPath } from 'node:url'

import { errorMessage } from '@osmosis/core'
import type { RolloutGrade, StoredRollout } from '@osmosis/eval'

import { loadGrader, type GraderOrder, type LoadedGrader } from './load-grader.ts'

// Started by `GraderProcess`, in a process of its own: what a grader does is its own business, and each
// save of it is loaded again.

/** What the process is told: first with what to grade, then what. */
export type ToGrader =
  | { readonly type: 'load'; readonly order: GraderOrder }
  | { readonly type: 'grade'; readonly id: number; readonly rollouts: readonly StoredRollout[] }

/** What it answers. */
export type FromGrader =
  | ({ readonly type: 'loaded' } & Omit<LoadedGrader, 'grade'>)
  | { readonly type: 'failed'; readonly message: string }
  | { readonly type: 'graded'; readonly id: number; readonly grades: readonly RolloutGrade[] }
  /** Files of the user that were loaded, while they are; absolute. */
  | { readonly type: 'files'; readonly files: readonly string[] }

let grader: LoadedGrader | undefined

function say(message: FromGrader): void {
  process.send?.(message)
}

const reported = new Set<string>()
registerHooks({
  resolve(specifier, context, nextResolve) {
    const resolved = nextResolve(specifier, context)
    report(resolved.url)
    return resolved
  },
})

function report(url: string): void {
  if (!url.startsWith('file:') || url.includes('/node_modules/')) return
  const file = fileURLToPath(url.replace(/[?#].*$/, ''))
  if (reported.has(file)) return
  reported.add(file)
  say({ type: 'files', files: [file] })
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
// A rejection that nobody handles is trouble of the grader, and no reason to lose what it gives.
process.on('unhandledRejection', (reason) => {
  process.stderr.write(`warning: unhandled rejection in user code: ${errorMessage(reason)}\n`)
})
