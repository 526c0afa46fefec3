// @module-tag nightly
import { readFileSync, truncateSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { openRun } from '@osmosis/eval'
import { describe, expect, it } from 'vitest'

import { core, moduleIn } from './grader-modules.ts'
import { inWorkspace, run, workIn } from './in-process.ts'
import { startOsmosis, temporaryFolder } from './osmosis.ts'
import { storedItem, storedManifest, storeRun } from './stored-runs.ts'
import { temporaryWorkspace } from './temporary-workspace.ts'

inWorkspace()

it('osmosis eval regrade grades the final messages of an agent loop by an eval function', async () => {
  const output = temporaryFolder()
  const args = ['eval', 'run', 'configs/eval/adder.toml', '--output', output]
  const evaluation = await run([...args, ...'--policy adding --quiet --name loop'.split(' ')])
  expect(evaluation.code).toBe(0)
  const grader = 'rollouts/agent-loops/rewards.ts:exact'
  const { code, stdout } = await run(['eval', 'regrade', 'loop', '--grader', grader, '-o', output])
  expect(code).toBe(0)
  expect(stdout).toContain('No verdict has changed.')
  const none = await run(['eval', 'regrade', 'loop', '-o', output])
  expect(none).toMatchObject({ code: 2, stderr: expect.stringContaining('exports no grader') })
})

it('osmosis eval regrade prints one document with --json', async () => {
  const items = [storedItem(0, 'zero', 1), storedItem(1, 'one', 1)]
  const folder = await storeRun(temporaryFolder(), items)
  const file = moduleIn(temporaryFolder(), 'zero.ts', 'export const zero = () => 0\n')
  const flags = ['--grader', file, '--filter', 'row:1']
  const graded = await run(['eval', 'regrade', folder, ...flags, '--json'])
  expect(JSON.parse(graded.stdout)).toMatchObject({
    run: 'stored',
    grading: 'zero-1',
    grader: 'zero',
    rollouts: 1,
    graded: 1,
    errors: [],
    changed: [{ rollout: '1.1', before: 1, after: 0 }],
  })
  expect((await openRun(folder)).sortedEvents.map(({ reward }) => reward)).toEqual([1, 1])
})

describe('osmosis eval regrade of stored samples', () => {
  it('counts what has no samples, and what is damaged', async () => {
    const output = temporaryFolder()
    const folder = await storeRun(output, [
      storedItem(0, 'zero', 1),
      storedItem(1, '', null, { graded: null }),
      storedItem(2, 'two', 1),
    ])
    const samples = path.join(folder, 'samples/0000.jsonl')
    truncateSync(samples, readFileSync(samples).length - 20)
    const regrade = ['eval', 'regrade', folder, '--as', 'mine']
    const { code, stdout } = await run(regrade)
    expect(code).toBe(1)
    expect(stdout).toContain('Graded 1 of 3 rollouts')
    expect(stdout).toContain(
      'Not graded: 1 failed and have no samples, 1 whose stored samples are damaged.',
    )
    expect(await run(regrade)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(
        'mine exists already. Replace it? No terminal is available for the answer',
      ),
    })
  })

  it('says with how much confidence rollouts have become worse', async () => {
    const output = temporaryFolder()
    const items = Array.from({ length: 20 }, (_, row) => storedItem(row, String(row), 1))
    const folder = await storeRun(output, items)
    const file = moduleIn(
      temporaryFolder(),
      'half.ts',
      `export const half = ({ groundTruth }: { groundTruth: string }) => Number(groundTruth) % 2`,
    )
    const { stdout } = await run(['eval', 'regrade', folder, '--grader', file])
    expect(stdout).toContain('Pass rate 100.0 % → 50.0 %, mean reward 1 → 0.5.')
    expect(stdout).toContain('Worse by 50.0 points, with 95 % confidence between 26.0 and 74.0.')
  })

  it('hands several samples, artifacts and removals to the grader as the server does', async () => {
    const output = temporaryFolder()
    const sample = (text: string, removed = false) => ({
      messages: [{ role: 'assistant', content: text }],
      label: null,
      metrics: { length: text.length },
      extra_fields: {},
      ...(removed ? { removed: true as const } : {}),
    })
    const samples = { a: sample('good'), b: sample('bad'), c: sample('out', true) }
    const folder = await storeRun(output, [storedItem(0, 'zero', 1, { graded: { samples } })])
    const file = moduleIn(
      temporaryFolder(),
      'team.ts',
      `import path from 'node:path'
      import { Grader, lastAssistantText, type GraderContext } from '${core}'
      export class Team extends Grader {
        async grade(ctx: GraderContext): Promise<void> {
          for (const [id, sample] of ctx.samples) {
            if (lastAssistantText(sample) === 'bad') ctx.removeSample(id)
            else ctx.setSampleReward(id, ctx.artifactsDir?.endsWith(path.join('rollout-0', 'artifacts')) ? 0.5 : 0)
          }
        }
      }`,
    )
    await run(['eval', 'regrade', folder, '--grader', file, '--as', 'team'])
    const grades = await (await openRun(folder)).grades('team')
    expect(grades.get('0.0')).toEqual({
      source_row_index: 0,
      run_index: 0,
      rollout_id: 'rollout-0',
      reward: 0.5,
      samples: { a: 0.5, b: null, c: null },
      metrics: { length: 4 },
      error: null,
    })
  })

  it('ends a grader at its time limit, and continues where one ends the process', async () => {
    const items = [0, 1, 2, 3].map((row) => storedItem(row, String(row), 1))
    const inputs = { timeouts: { agent_seconds: null, grader_seconds: 5, max_turns: null } }
    const folder = await storeRun(temporaryFolder(), items, storedManifest(4, {}, inputs))
    const file = moduleIn(
      temporaryFolder(),
      'fatal.ts',
      `import { Grader, type GraderContext } from '${core}'
      export class Fatal extends Grader {
        async grade(ctx: GraderContext): Promise<void> {
          if (ctx.label === '1') process.reallyExit(7)
          if (ctx.label === '2') await new Promise(() => {})
          ctx.setReward(1)
        }
      }`,
    )
    const { stdout } = await run(['eval', 'regrade', folder, '--grader', file, '--as', 'fatal'])
    expect(stdout).toContain('1.1: The process of the grader exited with code 7.')
    expect(stdout).toContain('2.1: grader exceeded its 5s deadline')
    const grades = await (await openRun(folder)).grades('fatal')
    expect([...grades.values()].map(({ reward }) => reward)).toEqual([1, null, null, 1])
  })

  it('takes a process that a grader blocks for one that does not answer', async () => {
    const items = [storedItem(0, 'zero', 1), storedItem(1, 'one', 1)]
    const inputs = { timeouts: { agent_seconds: null, grader_seconds: 5, max_turns: null } }
    const folder = await storeRun(temporaryFolder(), items, storedManifest(2, {}, inputs))
    const file = moduleIn(
      temporaryFolder(),
      'blocking.ts',
      `export const blocking = ({ groundTruth }: { groundTruth: string }) => {
        // Blocks its thread as a loop would, and leaves the machine to others.
        if (groundTruth === '1') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
        return 1
      }`,
    )
    const { code, stdout } = await run(['eval', 'regrade', folder, '--grader', file])
    expect(code).toBe(0)
    expect(stdout).toContain('1.1: The process of the grader blocked its event loop for more')
  })

  it('keeps after Ctrl-C what has been graded', async () => {
    const items = [0, 1, 2].map((row) => storedItem(row, String(row), 1))
    const folder = await storeRun(temporaryFolder(), items)
    const file = moduleIn(
      temporaryFolder(),
      'slow.ts',
      `import { defineGraderConfig, Grader, type GraderContext } from '${core}'
      export const graderConfig = defineGraderConfig({ name: 'slow', concurrency: { maxConcurrent: 1 } })
      export class Slow extends Grader {
        async grade(ctx: GraderContext): Promise<void> {
          if (ctx.label === '2') {
            console.log('thinking')
            await new Promise((resolve) => setTimeout(resolve, 1e8))
          }
          ctx.setReward(0)
        }
      }`,
    )
    const command = startOsmosis(['eval', 'regrade', folder, '--grader', file, '--as', 'slow'])
    await command.printed(/thinking/)
    command.child.kill('SIGINT')
    const { code, stdout } = await command.finished
    expect(code).toBe(130)
    expect(stdout).toContain('Not graded: 1 that the grading did not reach.')
    expect([...(await (await openRun(folder)).grades('slow')).keys()]).toEqual(['0.0', '1.0'])
  })

  it('configures a grader in a file of its own as the entrypoint of the run does', async () => {
    const root = temporaryWorkspace({
      'rollouts/own/main.ts': `
        import { AgentWorkflow, defineGraderConfig, defineWorkflowConfig } from '@osmosis/core'
        export const graderConfig = defineGraderConfig({ name: 'own', points: 0.5 })
        const metadata = {
          '~standard': {
            version: 1 as const,
            vendor: 'own',
            validate: (row: unknown) => ({ value: { weight: Number((row as { weight: string }).weight) } }),
          },
        }
        export const workflowConfig = defineWorkflowConfig({ name: 'own', metadata })
        export class Own extends AgentWorkflow {
          async run(): Promise<void> {}
        }`,
      'rollouts/own/grader.ts': `
        import { Grader, type GraderContext } from '@osmosis/core'
        import type { graderConfig, workflowConfig } from './main.ts'
        export class OwnGrader extends Grader<typeof graderConfig, typeof workflowConfig> {
          async grade(ctx: GraderContext<typeof graderConfig, typeof workflowConfig>): Promise<void> {
            ctx.setReward(ctx.config.points * ctx.metadata.weight)
          }
        }`,
    })
    workIn(root)
    const items = [storedItem(0, 'zero', 1, { graded: { metadata: { weight: '0.5' } } })]
    const code = { rollout: 'own', entrypoint: 'rollouts/own/main.ts' }
    const folder = await storeRun(path.join(root, '.osmosis/evals'), items, storedManifest(1, code))
    const args = ['eval', 'regrade', folder, '--grader', path.join(root, 'rollouts/own/grader.ts')]
    const { stdout, stderr } = await run(args)
    expect(stderr).toBe('')
    expect(stdout).toContain('mean reward 1 → 0.25.')
  })

  it('compares nothing where the grader failed for all', async () => {
    const folder = await storeRun(temporaryFolder(), [storedItem(0, 'zero', 0)])
    const file = path.join(temporaryFolder(), 'broken.ts')
    writeFileSync(file, "export const broken = () => { throw new Error('no') }\n")
    const { code, stdout } = await run(['eval', 'regrade', folder, '--grader', file])
    expect(code).toBe(1)
    expect(stdout).toContain('The grader failed for 1 rollout, which has no reward')
    expect(stdout).not.toContain('Pass rate')
  })
})
