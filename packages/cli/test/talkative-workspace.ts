import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

import type { Finished } from './osmosis.ts'
import { evalConfig, temporaryWorkspace } from './temporary-workspace.ts'

/** Speaks of its variables wherever it can: in pieces, in the name of a sample, in an error. */
const talkative = `import { AgentWorkflow, Grader, requireRolloutContext, toRolloutSample } from '@osmosis/core'

const { FIRST, SECOND, PLAIN } = process.env

export class Talkative extends AgentWorkflow {
  async run() {
    console.log(JSON.stringify({ FIRST, SECOND, PLAIN }))
    console.log('lengths', FIRST.length, SECOND.length)
    process.stdout.write(String(FIRST).slice(0, 5))
    await new Promise((resolve) => setTimeout(resolve, 50))
    process.stdout.write(String(FIRST).slice(5) + '\\n')
    process.stderr.write('second: ' + SECOND + '\\n')
    requireRolloutContext('Talkative').registerSampleSource('talk', {
      getSample: (id) => toRolloutSample({ id, messages: [] }),
    })
  }
}

export class Blunt extends Grader {
  async grade() {
    throw new Error('wrong key: ' + FIRST + ' and ' + SECOND)
  }
}
`

/** A workspace whose workflow speaks of its variables. */
export function talkativeWorkspace(files: Readonly<Record<string, string>> = {}): string {
  return temporaryWorkspace({
    'rollouts/talkative/main.ts': talkative,
    'configs/eval/talkative.toml': evalConfig(
      'talkative',
      '[env]\nPLAIN = "from the config"\n[secrets]\nrequired = ["FIRST", "SECOND"]\n',
    ),
    ...files,
  })
}

const words = 'eval run configs/eval/talkative.toml --policy policies/echo.ts --limit 1 --name r'
/** Runs the evaluation. */
export const command = words.split(' ')

/** Everything that a run printed and wrote. */
export function traces(root: string, { stdout, stderr }: Finished): string {
  const folder = path.join(root, '.osmosis/evals/r')
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => readFileSync(path.join(parentPath, name), 'utf8'))
  return [stdout, stderr, ...files].join('\n')
}

/** What the server of the run printed. */
export function log(root: string): string {
  return readFileSync(path.join(root, '.osmosis/evals/r/logs.txt'), 'utf8')
}
