import { readFile } from 'node:fs/promises'
import path from 'node:path'

import { frameworkNames } from '@osmosis/create'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'

import { startOwnRegistry, type OwnRegistry } from './own-registry.ts'
import { cleanUp, temporaryFolder } from './workspace.ts'

let registry: OwnRegistry

beforeAll(async () => {
  registry = await startOwnRegistry(inject('packed'))
})

afterAll(async () => {
  await registry[Symbol.asyncDispose]()
  await cleanUp()
})

const starts = {
  npm: 'npm create @osmosis@latest my-agent -- --framework',
  pnpm: 'pnpm create @osmosis@latest my-agent --framework',
} as const

// What is created does not depend on who creates it.
const cases = [
  ...frameworkNames.map((framework) => ['npm', framework] as const),
  ...frameworkNames.slice(0, 1).map((framework) => ['pnpm', framework] as const),
]

describe('from an empty folder', () => {
  it.each(cases)(
    'with %s to the transcript of a failing row of %s in four commands, without editing a file',
    async (manager, framework) => {
      const start = starts[manager]
      const folder = await temporaryFolder()
      const timed = stopwatch()
      const created = registry.runWithErrors(folder, `${start} ${framework}`)
      // A newcomer takes it for a problem of the workspace.
      expect(await timed('create', created)).not.toContain('install-scripts')
      const workspace = path.join(folder, 'my-agent') // The second command goes there.
      const evaluate = 'npx osmosis eval run configs/eval/my-agent.toml --name first'
      const report = await timed('eval run', inFolder(workspace, evaluate))

      const [, show = ''] = /^First failure +(npx osmosis eval show .*)$/m.exec(report) ?? []
      const transcript = await timed('eval show', inFolder(workspace, show))
      console.log(`${manager}, ${framework}: ${timed.report()}`)
      expect(transcript).toMatch(/^\d+\.\d  reward 0, not passed\n/)
      // Programs call the tools of a workspace through MCP, under a longer name.
      expect(transcript).toMatch(/→ (?:mcp__shop__)?look_up_price\(product: /)
      const [, label] = /^Label {2}([\d.]+)$/m.exec(transcript) ?? []
      const [, answer] = /^ {2}#### ([\d.]+)$/m.exec(transcript) ?? []
      expect(Number(answer)).toBeGreaterThan(0)
      expect(Number(answer)).not.toBe(Number(label))

      const { summary } = JSON.parse(
        await readFile(path.join(workspace, '.osmosis/evals/first/metrics.json'), 'utf8'),
      ) as { summary: object }
      // The scripted policy errs by the text of the question, before which programs get the instructions.
      const passed = ['claude-agent-sdk', 'codex'].includes(framework) ? 26 : 25
      expect(summary).toMatchObject({ total_samples: 48, graded: 48, passed })

      await inFolder(workspace, `${manager} run typecheck`)
      await inFolder(workspace, `${manager} test`)
    },
  )
})

/** Takes the seconds of each step. */
function stopwatch() {
  const steps: string[] = []
  const timed = async <T>(step: string, done: Promise<T>): Promise<T> => {
    const start = performance.now()
    const result = await done
    steps.push(`${step} ${((performance.now() - start) / 1000).toFixed(1)} s`)
    return result
  }
  return Object.assign(timed, { report: () => steps.join(', ') })
}

function inFolder(folder: string, command: string): Promise<string> {
  return registry.run(folder, command)
}
