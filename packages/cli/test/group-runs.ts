import { existsSync } from 'node:fs'
import path from 'node:path'

import type { ItemEvent } from '@osmosis/eval/analysis'

import { journalEvents } from '../../../test/kit/index.ts'
import { run } from './in-process.ts'
import { temporaryFolder, type Finished } from './osmosis.ts'
import { temporaryWorkspace } from './temporary-workspace.ts'

// Attempts say which of how many they are, and notes what the grader saw beside them. `two` fails in its
// second attempt, and `four` waits in its second one for a file, where the environment says so.
const ranked = `import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

import { journalEvents } from '../../../test/kit/index.ts'
import { GroupGrader } from '@osmosis/core'
import { EchoWorkflow as Echo } from '../echo/main.ts'

export class RankedWorkflow extends Echo {
  override async run(ctx) {
    const { FAILS, GATE } = process.env
    const name = ctx.prompt[0].content + ' ' + ctx.group?.attempt
    if (name === FAILS) throw new Error('the agent broke')
    while (name === 'four 2' && GATE && !existsSync(GATE)) await sleep(20, undefined, { signal: ctx.signal })
    return super.run(ctx)
  }
}

export class RankGrader extends GroupGrader {
  async gradeGroup({ members, failed, missing, group }) {
    for (const member of members) {
      member.sample.metrics = { members: members.length, failed: failed.length, missing: missing.length }
      member.setReward(member.attempt / group.size)
    }
  }
}
`

const base =
  'eval run -m rollouts/ranked/main.ts -d data/words.jsonl --policy policies/echo.ts --name r'

/** A workspace with a grader of groups, and one run in it. */
export function workspaceOfGroups(): {
  readonly root: string
  /** Words behind those of every run. */
  readonly words: (more: string) => string[]
  readonly evaluate: (more: string, env?: Record<string, string>) => Promise<Finished>
  readonly events: () => ItemEvent[]
  readonly journal: string
  readonly output: string
} {
  const root = temporaryWorkspace({ 'rollouts/ranked/main.ts': ranked })
  const output = temporaryFolder()
  const journal = path.join(output, 'r/events.jsonl')
  const words = (more: string): string[] => `${base} --output ${output} ${more}`.trim().split(' ')
  return {
    root,
    words,
    evaluate: async (more, env = {}) => run(words(more), env, root),
    events: () => (existsSync(journal) ? journalEvents<ItemEvent>(journal) : []),
    journal,
    output,
  }
}

/** Row and attempt, as \`0.1\`. */
export function placeOf({ source_row_index, run_index }: ItemEvent): string {
  return `${source_row_index}.${run_index + 1}`
}

/** What each place ended with last. */
export function rewards(events: readonly ItemEvent[]): Record<string, number | null> {
  return Object.fromEntries(events.map((event) => [placeOf(event), event.reward]))
}

/** The places of a whole run of four rows, each with this reward. */
export function everywhere(n: number): Record<string, number> {
  const attempts = Array.from({ length: n }, (_, index) => index + 1)
  return Object.fromEntries(
    [0, 1, 2, 3].flatMap((row) =>
      attempts.map((attempt) => [`${row}.${attempt}`, attempt / n] as const),
    ),
  )
}

/** A grader in a file of its own: the first attempt is the best. */
export const inverse = `import { GroupGrader } from '@osmosis/core'
export class InverseGrader extends GroupGrader {
  async gradeGroup({ members, failed, missing, group }) {
    for (const member of members) member.setReward(1 - member.attempt / group.size)
    if (failed.length + missing.length > 0) throw new Error('a part of ' + group.size)
  }
}
`
