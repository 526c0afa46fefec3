import {
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { openRun } from '@osmosis/eval'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

import { core, moduleIn } from './grader-modules.ts'
import { inWorkspace, run, start, useProcesses, workIn } from './in-process.ts'
import { temporaryFolder, startOsmosis } from './osmosis.ts'
import { storedItem, storedManifest, storeRun } from './stored-runs.ts'
import { temporaryWorkspace } from './temporary-workspace.ts'

inWorkspace()

const strict = `
import { Grader, lastAssistantText, type GraderContext } from '${core}'
export class Strict extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    ctx.setReward(lastAssistantText(ctx.sample) === 'ONE' ? 1 : 0)
  }
}`

describe('osmosis eval regrade of a real run', () => {
  const made = mkdtempSync(path.join(tmpdir(), 'osmosis-cli-'))
  beforeAll(async () => {
    const flags = ['--output', made, '--name', 'echo', '--quiet']
    await run(['eval', 'run', 'configs/eval/echo.toml', ...flags])
  })
  afterAll(() => rmSync(made, { recursive: true }))

  /** A folder of runs with the run in it, for one test. */
  function echoRun(): string {
    const output = temporaryFolder()
    cpSync(made, output, { recursive: true })
    return output
  }

  it('changes nothing with the grader of the run', async () => {
    const output = echoRun()
    const before = readFileSync(path.join(output, 'echo/events.jsonl'), 'utf8')
    const { code, stdout, stderr } = await run(['eval', 'regrade', 'echo', '-o', output])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(/^Graded 8 of 8 rollouts of echo with EchoGrader in /)
    expect(stdout).toContain('No verdict has changed.\nPass rate 75.0 % → 75.0 %')
    expect(stdout).toContain('Written as echo@main-1.')
    const reader = await openRun(path.join(output, 'echo'))
    const grades = await reader.grades('main-1')
    expect([...grades.values()].map(({ reward }) => reward)).toEqual(
      reader.sortedEvents.map(({ reward }) => reward),
    )
    expect(readFileSync(path.join(output, 'echo/events.jsonl'), 'utf8')).toBe(before)
  })

  it('is what the page does with one key, with the grader as its file is now', async () => {
    const output = echoRun()
    const view = start(['eval', 'view', 'echo', '--output', output])
    const [link, token = ''] = await view.printed(/http:\S+#token=([\w-]+)\S*/)
    const headers = { authorization: `Bearer ${token}` }
    const url = new URL('/api/runs/echo/regrade', link)
    const answer = await fetch(url, { method: 'POST', headers })
    expect(await answer.json()).toEqual({ state: 'graded', name: 'echo@edited' })
    const { size } = await (await openRun(path.join(output, 'echo'))).grades('edited')
    expect(size).toBe(8)
    expect((await fetch(url, { method: 'POST' })).status).toBe(401)
    await view.end()
  })

  it('prints of which rollouts a stricter grader changes the verdict, and leaves the rewards of the run', async () => {
    const output = echoRun()
    const file = moduleIn(temporaryFolder(), 'strict.ts', strict)
    const regrade = ['eval', 'regrade', 'echo', '-o', output]
    const graded = await run([...regrade, '--grader', file, '--as', 'strict'])
    expect(graded.code).toBe(0)
    expect(graded.stdout).toContain(`4 verdicts have changed:
  1.1: 1 → 0
  1.2: 1 → 0
  3.1: 1 → 0
  3.2: 1 → 0
Pass rate 75.0 % → 25.0 %, mean reward 0.75 → 0.25.
Too few rows to compare.
Written as echo@strict.`)
    expect(
      (await openRun(path.join(output, 'echo'))).sortedEvents.map(({ reward }) => reward),
    ).toEqual([1, 1, 1, 1, 0, 0, 1, 1])
  })
})

describe('osmosis eval regrade of stored samples', () => {
  it('stops when the judge refuses the key, stores nothing and compares nothing', async () => {
    const output = temporaryFolder()
    const folder = await storeRun(output, [storedItem(0, 'zero', 1), storedItem(1, 'one', 1)])
    const file = moduleIn(
      temporaryFolder(),
      'locked-out.ts',
      `import { Grader, OsmosisError } from '${core}'
      export class LockedOut extends Grader {
        async grade(): Promise<void> {
          const cause = new OsmosisError('judge_failed', 'The judge j gave no score: it answered 401: who?', { status: 401 })
          throw new Error('not judged', { cause })
        }
      }`,
    )
    const { code, stdout, stderr } = await run(['eval', 'regrade', folder, '--grader', file])
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toContain(
      'error: Nothing can be graded, and nothing is stored. The judge j gave no score: it answered 401: who?',
    )
    expect(await (await openRun(folder)).gradings()).toEqual([])
  })

  it('gives rollouts an error and no reward of 0 when the grader throws, and says so', async () => {
    const output = temporaryFolder()
    const folder = await storeRun(output, [
      storedItem(0, 'zero', 1),
      storedItem(1, 'one', 1),
      storedItem(2, 'two', 0),
      storedItem(3, 'three', 1),
    ])
    const file = moduleIn(
      temporaryFolder(),
      'moody.ts',
      `import { Grader, requireRolloutContext, type GraderContext } from '${core}'
      export class Moody extends Grader {
        async grade(ctx: GraderContext): Promise<void> {
          if (ctx.label === '1') throw new Error('the judge is out')
          if (ctx.label === '3') await requireRolloutContext('the judge').policy('judge').complete({ messages: [] })
          ctx.setReward(1)
        }
      }`,
    )
    const { code, stdout } = await run([
      'eval',
      'regrade',
      folder,
      '--grader',
      file,
      '--as',
      'moody',
    ])
    expect(code).toBe(0)
    expect(stdout).toMatch(
      /The grader failed for 2 rollouts, which have no reward and are not compared:\n {2}1\.1: thrown by grade\(\) at \S+moody\.ts:4: the judge is out\n/,
    )
    // No policy listens.
    expect(stdout).toMatch(/3\.1: .*: the judge .*rollout/)
    expect(stdout).toContain('1 verdict has changed:\n  2.1: 0 → 1\nPass rate 50.0 % → 100.0 %')
    const grades = await (await openRun(folder)).grades('moody')
    expect(grades.get('1.0')).toMatchObject({
      reward: null,
      error: expect.stringContaining('the judge is out') as unknown,
    })
    expect(grades.get('2.0')).toMatchObject({ reward: 1, samples: { main: 1 }, error: null })
  })

  it('replaces no grades that another command makes at the same time', async () => {
    const items = [storedItem(0, 'zero', 1), storedItem(1, 'one', 1)]
    const folder = await storeRun(temporaryFolder(), items)
    const signs = temporaryFolder()
    const [waiting, gate] = [path.join(signs, 'waiting'), path.join(signs, 'gate')]
    writeFileSync(waiting, '')
    const file = moduleIn(
      temporaryFolder(),
      'strict.ts',
      `import { appendFileSync, existsSync } from 'node:fs'
      export const strict = async ({ groundTruth }: { groundTruth: string }) => {
        if (groundTruth === '1') return 0
        appendFileSync(${JSON.stringify(waiting)}, '1')
        while (!existsSync(${JSON.stringify(gate)})) await new Promise((resolve) => setTimeout(resolve, 20))
        return 0
      }`,
    )
    const regrade = ['eval', 'regrade', folder, '--grader', file, '--filter']
    const first = start([...regrade, 'row:0'])
    const named = start([...regrade, 'row:0', '--as', 'named'])
    await expect.poll(() => readFileSync(waiting, 'utf8')).toBe('11')
    const second = await run([...regrade, 'row:1'])
    expect([second.code, second.stdout]).toEqual([0, expect.stringContaining('@strict-2.')])
    expect(await run([...regrade, 'row:1', '--as', 'named', '--yes'])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('error: Another process grades stored as named. Wait until '),
    })
    writeFileSync(gate, '')
    expect((await first.finished).stdout).toContain('@strict-1.')
    expect((await named.finished).code).toBe(0)
    const reader = await openRun(folder)
    const graded = async (name: string): Promise<string[]> => [
      ...(await reader.grades(name)).keys(),
    ]
    expect(await reader.gradings()).toEqual(['named', 'strict-1', 'strict-2'])
    expect(await graded('named')).toEqual(['0.0'])
    expect(await graded('strict-1')).toEqual(['0.0'])
    expect(await graded('strict-2')).toEqual(['1.0'])
    // A name is free again when its command has ended.
    const again = await run([...regrade, 'row:1', '--as', 'named', '--yes'])
    expect([again.code, await graded('named')]).toEqual([0, ['1.0']])
  })

  it('gives the grader the secrets of the run, and shows none', async () => {
    useProcesses()
    const items = [storedItem(0, 'zero', 1)]
    const inputs = { secrets: ['JUDGE_KEY'] }
    const folder = await storeRun(temporaryFolder(), items, storedManifest(1, {}, inputs))
    const file = moduleIn(
      temporaryFolder(),
      'secret.ts',
      `export const secret = () => {
        console.log('key', process.env.JUDGE_KEY)
        throw new Error('the ' + process.env.JUDGE_KEY)
      }`,
    )
    const args = ['eval', 'regrade', folder, '--grader', file]
    expect(await run(args)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('secrets that have no value: JUDGE_KEY'),
    })
    const { stdout, stderr } = await run(args, { JUDGE_KEY: 'sesame-9' })
    expect(stdout).toContain('0.1: the [redacted]')
    expect(stderr).toContain('key [redacted]')
    expect(readFileSync(path.join(folder, 'grades/secret-1.jsonl'), 'utf8')).not.toContain('sesame')
  })

  it('shows no secret in any of the forms that programs give it', { tags: 'slow' }, async () => {
    useProcesses()
    const key = 'sesame-9/?>&<"+key'
    const forms = [
      "Buffer.from(key).toString('base64')",
      "Buffer.from('user:' + key).toString('base64')",
      "Buffer.from('x' + key + 'y').toString('base64')",
      "Buffer.from(':' + key).toString('base64url')",
      'encodeURIComponent(key)',
      'JSON.stringify(JSON.stringify({ key }))',
      "key.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll(String.fromCharCode(34), '&quot;')",
    ]
    const folder = await storeRun(
      temporaryFolder(),
      forms.map((_, row) => storedItem(row, 'zero', 1)),
      storedManifest(forms.length, {}, { secrets: ['KEY'] }),
    )
    const file = moduleIn(
      temporaryFolder(),
      'form.ts',
      `const key = process.env.KEY
      const forms = [${forms.join(', ')}]
      export const form = () => {
        const text = forms.shift()
        console.log('as', text)
        throw new Error('so ' + text)
      }`,
    )
    const { stdout, stderr } = await run(['eval', 'regrade', folder, '--grader', file], {
      KEY: key,
    })
    const stored = readFileSync(path.join(folder, 'grades/form-1.jsonl'), 'utf8')
    // The report shows the first errors.
    expect(stdout).toContain('[redacted]')
    for (const text of [stderr, stored]) {
      expect(text.split('[redacted]')).toHaveLength(forms.length + 1)
    }
    for (const text of [stdout, stderr, stored]) {
      // The middle of the key, in base64 at any place of its three bytes.
      for (const part of ['sesame', '2VzYW1l', 'c2VzYW1l', 'zZXNhbW', 'NYW1lLTk']) {
        expect(text).not.toContain(part)
      }
    }
  })

  it('refuses flags that exclude each other and unknown names', async () => {
    const folder = await storeRun(temporaryFolder(), [storedItem(0, 'zero', 1)])
    const refusals: [string[], string][] = [
      [['nowhere'], 'There is no run nowhere'],
      [[folder, '--filter', 'is:odd'], 'Unknown state "is:odd"'],
      [[folder, '--filter', 'row:7'], "matches 'row:7'"],
      [[folder, '--as', '../x'], 'The name of a grading has up to 96'],
      [[folder, '--grader', 'nothing.ts'], 'nothing.ts does not exist'],
      [
        [folder, '--grader', 'rollouts/agent-loops/rewards.ts'],
        'exports several functions. Name the one to grade with:',
      ],
      [[`${folder}@strict`], 'omit @strict'],
    ]
    for (const [args, message] of refusals) {
      const { code, stderr } = await run(['eval', 'regrade', ...args])
      expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(message) })
    }
  })
})

it(
  'osmosis eval regrade grades the final messages of an agent loop by an eval function',
  { tags: 'nightly' },
  async () => {
    const output = temporaryFolder()
    const args = ['eval', 'run', 'configs/eval/adder.toml', '--output', output]
    const evaluation = await run([...args, ...'--policy adding --quiet --name loop'.split(' ')])
    expect(evaluation.code).toBe(0)
    const grader = 'rollouts/agent-loops/rewards.ts:exact'
    const { code, stdout } = await run([
      'eval',
      'regrade',
      'loop',
      '--grader',
      grader,
      '-o',
      output,
    ])
    expect(code).toBe(0)
    expect(stdout).toContain('No verdict has changed.')
    const none = await run(['eval', 'regrade', 'loop', '-o', output])
    expect(none).toMatchObject({ code: 2, stderr: expect.stringContaining('exports no grader') })
  },
)

it('osmosis eval regrade says after Ctrl-C that what has been graded cannot be stored', async () => {
  const items = [0, 1].map((row) => storedItem(row, String(row), 1))
  const folder = await storeRun(temporaryFolder(), items)
  const place = path.join(folder, 'grades')
  const file = moduleIn(
    temporaryFolder(),
    'blocking.ts',
    `import { writeFileSync } from 'node:fs'
    import { defineGraderConfig, Grader, type GraderContext } from '${core}'
    export const graderConfig = defineGraderConfig({ name: 'slow', concurrency: { maxConcurrent: 1 } })
    export class Slow extends Grader {
      async grade(ctx: GraderContext): Promise<void> {
        if (ctx.label === '1') {
          writeFileSync(${JSON.stringify(place)}, '')
          await new Promise(() => {})
        }
        ctx.setReward(0)
      }
    }`,
  )
  const command = start(['eval', 'regrade', folder, '--grader', file, '--as', 'slow'])
  await expect.poll(() => existsSync(place), { timeout: 30_000 }).toBe(true)
  const { code, stderr } = await command.end()
  expect([code, stderr]).toEqual([1, expect.stringMatching(/error: Cannot write .*slow\.jsonl/)])
})

it('osmosis eval regrade prints one document with --json', { tags: 'nightly' }, async () => {
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

describe('osmosis eval regrade of stored samples', { tags: 'nightly' }, () => {
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
    useProcesses()
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
    useProcesses()
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
