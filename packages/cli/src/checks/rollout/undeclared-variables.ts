import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'

import { fromWorkingFolder } from '../../command/command-context.ts'
import type { EvalRunPlan } from '../../eval/run/evaluation-plan.ts'
import { type CheckFinding, warn } from '../finding.ts'
import { page } from '../pages.ts'

/** Names variables that the code reads, and the config does not set; the place is that of the first. */
export async function variableFindings({
  env,
  secrets,
  folder,
}: Pick<EvalRunPlan, 'env' | 'secrets' | 'folder'>): Promise<CheckFinding[]> {
  const undeclared = (await readVariables(folder))
    .filter(({ name }) => !(name in env) && !(name in secrets) && !common.test(name))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
  const [first] = undeclared
  if (first === undefined) return []
  const names = [...new Set(undeclared.map(({ name }) => name))]
  return [
    warn(
      'variables',
      `The code reads ${names.join(', ')}, which the config does not name: on the platform nothing sets them.`,
      {
        file: fromWorkingFolder(first.file),
        line: first.line,
        advice: 'Add secrets to required in [secrets], and everything else to [env].',
        page: page('config'),
      },
    ),
  ]
}

/** Variables that the system and Osmosis set wherever a rollout runs. */
const common =
  /^(?:_?OSMOSIS_.*|ROLLOUT_PORT|NODE_.*|CI|DEBUG|HOME|LANG|LOGNAME|PATH|PWD|SHELL|TEMP|TERM|TMP|TMPDIR|TZ|USER)$/

const access = /\bprocess\.env(?:\.([A-Za-z_]\w*)|\[\s*(['"])([A-Za-z_]\w*)\2\s*\])/g

/** A variable that code reads. */
interface ReadVariable {
  readonly name: string
  /** Absolute. */
  readonly file: string
  /** Counted from 1. */
  readonly line: number
}

/**
 * The variables that the code of a rollout reads, as in `process.env.NAME`. Those that packages read, and computed names, are not
 * found.
 */
async function readVariables(folder: string): Promise<readonly ReadVariable[]> {
  const found: ReadVariable[] = []
  for await (const file of sourcesIn(folder)) {
    // One that cannot be read fails where it is loaded, if it is.
    const text = await readFile(file, 'utf8').catch(() => '')
    for (const match of text.matchAll(access)) {
      const [, dotted, , quoted] = match
      const line = text.slice(0, match.index).split('\n').length
      found.push({ name: dotted ?? quoted ?? '', file, line })
    }
  }
  return found
}

async function* sourcesIn(folder: string): AsyncGenerator<string> {
  for (const entry of await readdir(folder, { withFileTypes: true }).catch(() => [])) {
    const place = path.join(folder, entry.name)
    if (entry.isDirectory() && entry.name !== 'node_modules') yield* sourcesIn(place)
    if (entry.isFile() && /(?<!\.test)\.[cm]?[jt]sx?$/.test(entry.name)) yield place
  }
}
