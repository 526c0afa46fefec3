// @module-tag slow
import { existsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import path from 'node:path'

import { expect, it } from 'vitest'

import { onlyIf } from '../../../test/kit/index.ts'
import { inWorkspace, readResults, run as evaluate } from './in-process.ts'
import { temporaryFolder } from './osmosis.ts'
import { temporaryWorkspace } from './temporary-workspace.ts'

inWorkspace()

const crashing = `import { EchoWorkflow as Echo } from '../echo/main.ts'
export { EchoGrader } from '../echo/main.ts'
export class CrashingWorkflow extends Echo {
  override async run(ctx) {
    if (ctx.prompt[0].content === 'two') process.kill(process.pid, 'SIGSEGV')
    return super.run(ctx)
  }
}
`

it('osmosis eval run --workers continues when a row brings its process down', async () => {
  const root = temporaryWorkspace({ 'rollouts/crashing/main.ts': crashing })
  const output = temporaryFolder()
  // One at a time: what is in the same worker and has asked is lost with it.
  const flags = `-m rollouts/crashing/main.ts -d data/words.jsonl --policy policies/echo.ts`
  const words = `${flags} --workers 2 --max-in-flight 1 --output ${output} --name r`.split(' ')
  const { code } = await evaluate(['eval', 'run', ...words], {}, root)
  const { records, run } = readResults(path.join(output, 'r'))
  expect(code).toBe(0)
  expect(run).toMatchObject({ status: 'finished' })
  expect(records.map(({ status }) => status)).toEqual(['success', 'failed', 'success', 'success'])
  expect(records[1]).toMatchObject({
    error_type: 'worker_lost',
    error_message: expect.stringContaining('the worker process crashed in native code (SIGSEGV)'),
  })
})

const killedOnce = `import { existsSync, writeFileSync } from 'node:fs'
import { EchoWorkflow as Echo } from '../echo/main.ts'
export { EchoGrader } from '../echo/main.ts'
export class KilledWorkflow extends Echo {
  override async run(ctx) {
    const said = await super.run(ctx)
    if (ctx.prompt[0].content !== 'two' || existsSync('killed')) return said
    writeFileSync('killed', '')
    process.kill(process.pid, 'SIGKILL')
    return new Promise(() => {})
  }
}
`

it('osmosis eval run --workers runs again what was in a worker that was killed, and fails none of it', async () => {
  const root = temporaryWorkspace({ 'rollouts/killed/main.ts': killedOnce })
  const output = temporaryFolder()
  const flags = `-m rollouts/killed/main.ts -d data/words.jsonl --policy policies/echo.ts`
  const words = `${flags} --workers 1 --output ${output} --name r`.split(' ')
  const { code } = await evaluate(['eval', 'run', ...words], {}, root)
  const { records } = readResults(path.join(output, 'r'))
  expect(code).toBe(0)
  expect(existsSync(path.join(root, 'killed'))).toBe(true)
  expect(records.map(({ status }) => status)).toEqual(Array(4).fill('success'))
})

// Its event loop stands still as if it computed, but the processor is left to other tests.
const computing = `export { EchoGrader, EchoWorkflow as ComputingWorkflow } from '../echo/main.ts'
const cell = new Int32Array(new SharedArrayBuffer(4))
setInterval(() => Atomics.wait(cell, 0, 0, 500), 1).unref()
`

const inGroups = `import { GroupGrader } from '@osmosis/core'
export { ComputingWorkflow } from '../computing/main.ts'
export class Equal extends GroupGrader {
  async gradeGroup({ members }) {
    for (const member of members) member.setReward(1)
  }
}
`

onlyIf(availableParallelism() > 1, 'a machine with two cores').it(
  'osmosis eval run says when workers would have run a workflow sooner, which none have',
  { tags: 'nightly' },
  async () => {
    const root = temporaryWorkspace({
      'rollouts/computing/main.ts': computing,
      'rollouts/in-groups/main.ts': inGroups,
    })
    const run = async (entrypoint: string): Promise<string> => {
      const flags = `-m rollouts/${entrypoint}/main.ts -d data/words.jsonl --policy policies/echo.ts --limit 1 --n 2`
      const args = `eval run ${flags} --output ${temporaryFolder()}`.split(' ')
      return (await evaluate(args, {}, root)).stderr
    }
    const advice = /^The workflow occupied its thread for \d+ % of the time\. --workers auto runs/m
    const [computes, isInGroups] = await Promise.all([run('computing'), run('in-groups')])
    expect(computes).toMatch(advice)
    // Workers would tear its groups apart.
    expect(isInGroups).not.toMatch(/workers?\b/)
  },
)
