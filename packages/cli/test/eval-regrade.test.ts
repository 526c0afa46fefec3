import { readFileSync, truncateSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { openRun, resumeRun } from '@osmosis/eval'
import { describe, expect, it } from 'vitest'

import { inWorkspace, readResults, run } from './in-process.ts'
import { endpoint, say } from './model-endpoint.ts'
import { startOsmosis, temporaryFolder } from './osmosis.ts'
import { storedItem, storedManifest, storeRun } from './stored-runs.ts'
import { temporaryWorkspace } from './temporary-workspace.ts'

inWorkspace()

/** Evaluates the echo and returns the folder of its runs. */
async function echoRun(...policy: readonly string[]): Promise<string> {
  const output = temporaryFolder()
  const flags = ['--output', output, '--name', 'echo', '--quiet']
  await run(['eval', 'run', 'configs/eval/echo.toml', ...flags, ...policy])
  return output
}

/** Writes a module where it finds the packages of the workspace. */
function moduleIn(folder: string, name: string, text: string): string {
  const file = path.join(folder, name)
  writeFileSync(file, text)
  return file
}

const core = path.resolve(import.meta.dirname, '../node_modules/@osmosis/core/src/index.ts')

const strict = `
import { Grader, lastAssistantText, type GraderContext } from '${core}'
export class Strict extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    ctx.setReward(lastAssistantText(ctx.sample) === 'ONE' ? 1 : 0)
  }
}`

describe('osmosis eval regrade of a real run', () => {
  it('changes nothing with the grader of the run, and asks no policy', async () => {
    const model = await endpoint(({ body }, response) => {
      const said = (body['messages'] as { content: string }[]).at(-1)?.content ?? ''
      say(response, said.endsWith('?') ? 'I do not know' : said.toUpperCase())
    })
    const output = await echoRun('--base-url', model.url, '--model', 'm')
    const before = readFileSync(path.join(output, 'echo/events.jsonl'), 'utf8')
    const asked = model.received.length
    expect(asked).toBeGreaterThanOrEqual(8)
    const { code, stdout, stderr } = await run(['eval', 'regrade', 'echo', '-o', output])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(model.received).toHaveLength(asked)
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

  it('prints the rollouts of which a stricter grader changes the verdict, and the difference', async () => {
    const output = await echoRun()
    const file = moduleIn(temporaryFolder(), 'strict.ts', strict)
    const flags = ['--grader', file, '-o', output]
    const { code, stdout } = await run(['eval', 'regrade', 'echo', ...flags])
    expect(code).toBe(0)
    expect(stdout).toContain(`4 verdicts have changed:
  1.1: 1 → 0
  1.2: 1 → 0
  3.1: 1 → 0
  3.2: 1 → 0
Pass rate 75.0 % → 25.0 %, mean reward 0.75 → 0.25.
Too few rows to say.
Written as echo@strict-1.`)
    const again = await run(['eval', 'regrade', 'echo', ...flags, '--json', '--filter', 'row:1'])
    expect(JSON.parse(again.stdout)).toMatchObject({
      run: 'echo',
      grading: 'strict-2',
      grader: 'Strict',
      rollouts: 2,
      graded: 2,
      errors: [],
      changed: [
        { rollout: '1.1', before: 1, after: 0 },
        { rollout: '1.2', before: 1, after: 0 },
      ],
    })
  })

  it('grades by an eval function in place of a grader', async () => {
    const output = await echoRun()
    const grader = 'rollouts/agent-loops/rewards.ts:exact'
    const { stdout } = await run(['eval', 'regrade', 'echo', '--grader', grader, '-o', output])
    expect(stdout).toContain('with exact in')
    // It does not care for upper case as the grader did.
    expect(stdout).toContain('6 verdicts have changed:')
    const file = 'rollouts/agent-loops/rewards.ts'
    const several = await run(['eval', 'regrade', 'echo', '--grader', file, '-o', output])
    expect(several).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('exports several functions. Name the one to grade with:'),
    })
  })

  it('adopts a grading, keeps what was there, and takes it back', async () => {
    const output = await echoRun()
    const file = moduleIn(temporaryFolder(), 'strict.ts', strict)
    const flags = ['--grader', file, '--as', 'strict', '-o', output]
    const refused = await run(['eval', 'regrade', 'echo', ...flags, '--adopt'])
    expect(refused).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Nobody can be asked: pass --yes.'),
    })
    const adopted = await run(['eval', 'regrade', 'echo', ...flags, '--adopt', '--yes'])
    expect(adopted.stdout).toContain('echo has the rewards of strict: 4 rollouts changed.')
    const folder = path.join(output, 'echo')
    const rewards = async (): Promise<(number | null)[]> =>
      (await openRun(folder)).sortedEvents.map(({ reward }) => reward)
    expect(await rewards()).toEqual([1, 1, 0, 0, 0, 0, 0, 0])
    expect(readResults(folder).summary).toMatchObject({ passed: 2, pass_rate: 0.25 })
    expect((await openRun(folder)).sortedEvents[0]?.at).not.toBeNull()
    const back = await run([
      'eval',
      'regrade',
      'echo',
      '--adopt',
      'original',
      '--yes',
      '-o',
      output,
    ])
    expect(back.code).toBe(0)
    expect(await rewards()).toEqual([1, 1, 1, 1, 0, 0, 1, 1])
    expect(readResults(folder).summary).toMatchObject({ passed: 6, pass_rate: 0.75 })
  })

  it('adopts nothing while another process writes to the run, unless --break-lock takes it', async () => {
    const output = await echoRun()
    const file = moduleIn(temporaryFolder(), 'strict.ts', strict)
    await run(['eval', 'regrade', 'echo', '--grader', file, '--as', 'strict', '-o', output])
    const adopt = ['eval', 'regrade', 'echo', '--adopt', 'strict', '--yes', '-o', output]
    await using writer = await resumeRun({ location: path.join(output, 'echo') })
    expect(await run(adopt)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(new RegExp(`^error: Process ${process.pid}, .* writes to the`)),
    })
    expect(writer.events.size).toBe(8)
    expect(await run([...adopt, '--break-lock'])).toMatchObject({
      code: 0,
      stdout: 'echo has the rewards of strict: 4 rollouts changed.\n',
    })
  })

  it('grades the final messages of an agent loop by an eval function', async () => {
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
  })
})

describe('osmosis eval regrade of stored samples', () => {
  it('gives rollouts an error and no reward of 0 when the grader throws, and says so', async () => {
    const output = temporaryFolder()
    const folder = await storeRun(output, [
      storedItem(0, 'zero', 1),
      storedItem(1, 'one', 1),
      storedItem(2, 'two', 0),
    ])
    const file = moduleIn(
      temporaryFolder(),
      'moody.ts',
      `import { Grader, type GraderContext } from '${core}'
      export class Moody extends Grader {
        async grade(ctx: GraderContext): Promise<void> {
          if (ctx.label === '1') throw new Error('the judge is out')
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
    expect(stdout).toContain(
      'The grader failed for 1 rollout, which has no reward:\n  1.1: the judge is out',
    )
    expect(stdout).toContain('  1.1: 1 → no reward')
    const grades = await (await openRun(folder)).grades('moody')
    expect(grades.get('1.0')).toMatchObject({ reward: null, error: 'the judge is out' })
    expect(grades.get('2.0')).toMatchObject({ reward: 1, samples: { main: 1 }, error: null })
  })

  it('counts what has no samples, and what is damaged', async () => {
    const output = temporaryFolder()
    const folder = await storeRun(output, [
      storedItem(0, 'zero', 1),
      storedItem(1, '', null, { graded: null }),
      storedItem(2, 'two', 1),
    ])
    const samples = path.join(folder, 'samples/0000.jsonl')
    truncateSync(samples, readFileSync(samples).length - 20)
    const { code, stdout } = await run(['eval', 'regrade', folder])
    expect(code).toBe(1)
    expect(stdout).toContain('Graded 1 of 3 rollouts')
    expect(stdout).toContain(
      'Not graded: 1 failed before there was anything to grade, 1 whose stored samples are damaged.',
    )
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

  it('tells a grader that asks the policy that there is none', async () => {
    const folder = await storeRun(temporaryFolder(), [storedItem(0, 'zero', 1)])
    const file = moduleIn(
      temporaryFolder(),
      'asking.ts',
      `import { Grader, requireRolloutContext } from '${core}'
      export class Asking extends Grader {
        async grade(): Promise<void> {
          await requireRolloutContext('the judge').policy('judge').complete({ messages: [] })
        }
      }`,
    )
    const { code, stdout } = await run(['eval', 'regrade', folder, '--grader', file])
    expect(code).toBe(1)
    expect(stdout).toMatch(/0\.1: the judge .*rollout/)
  })

  it('gives the grader the variables and secrets of the run, and shows no secret', async () => {
    const items = [storedItem(0, 'zero', 1)]
    const inputs = { env: { LOCALE: 'fr' }, secrets: ['JUDGE_KEY'] }
    const folder = await storeRun(temporaryFolder(), items, storedManifest(1, {}, inputs))
    const file = moduleIn(
      temporaryFolder(),
      'secret.ts',
      `export const secret = () => {
        console.log('key', process.env.JUDGE_KEY)
        throw new Error(process.env.LOCALE + ' ' + process.env.JUDGE_KEY)
      }`,
    )
    const args = ['eval', 'regrade', folder, '--grader', file]
    expect(await run(args)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('secrets that have no value: JUDGE_KEY'),
    })
    const { stdout, stderr } = await run(args, { JUDGE_KEY: 'sesame-9' })
    expect(stdout).toContain('0.1: fr [redacted]')
    expect(stderr).toContain('key [redacted]')
    expect(readFileSync(path.join(folder, 'grades/secret-1.jsonl'), 'utf8')).not.toContain('sesame')
  })

  it('ends a grader at its time limit, and goes on where one ends the process', async () => {
    const items = [0, 1, 2, 3].map((row) => storedItem(row, String(row), 1))
    const inputs = { timeouts: { agent_seconds: null, grader_seconds: 1, max_turns: null } }
    const folder = await storeRun(temporaryFolder(), items, storedManifest(4, {}, inputs))
    const file = moduleIn(
      temporaryFolder(),
      'fatal.ts',
      `import { Grader, type GraderContext } from '${core}'
      export class Fatal extends Grader {
        async grade(ctx: GraderContext): Promise<void> {
          if (ctx.label === '1') process.exit(7)
          if (ctx.label === '2') await new Promise(() => {})
          ctx.setReward(1)
        }
      }`,
    )
    const { stdout } = await run(['eval', 'regrade', folder, '--grader', file, '--as', 'fatal'])
    expect(stdout).toContain('1.1: The process of the grader ended with code 7.')
    expect(stdout).toContain('2.1: grader exceeded its 1s deadline')
    const grades = await (await openRun(folder)).grades('fatal')
    expect([...grades.values()].map(({ reward }) => reward)).toEqual([1, null, null, 1])
  })

  it('takes a process that a grader blocks for one that does not answer', async () => {
    const items = [storedItem(0, 'zero', 1), storedItem(1, 'one', 1)]
    const inputs = { timeouts: { agent_seconds: null, grader_seconds: 1, max_turns: null } }
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
    expect(stdout).toContain('1.1: The grader has blocked its process for more than its 1s.')
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
    expect(stdout).toContain('Not graded: 1 that nobody came to.')
    expect([...(await (await openRun(folder)).grades('slow')).keys()]).toEqual(['0.0', '1.0'])
  })

  it('grades both models of a run with a baseline', async () => {
    const inputs = { model: { name: 'new', base_url: null, baseline: 'old', params: {} } }
    const folder = await storeRun(
      temporaryFolder(),
      [
        storedItem(0, '0', 0, { model_tag: 'primary' }),
        storedItem(0, 'zero', 1, { model_tag: 'baseline' }),
      ],
      storedManifest(1, {}, inputs),
    )
    const grader = 'rollouts/agent-loops/rewards.ts:exact'
    const { stdout } = await run(['eval', 'regrade', folder, '--grader', grader])
    expect(stdout).toContain('1 verdict has changed:\n  0.1: 0 → 1\n')
    expect(stdout).toContain('1 verdict of the baseline has changed:\n  0.1@baseline: 1 → 0\n')
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
    const items = [storedItem(0, 'zero', 1, { graded: { metadata: { weight: '0.5' } } })]
    const code = { rollout: 'own', entrypoint: 'rollouts/own/main.ts' }
    const folder = await storeRun(path.join(root, '.osmosis/evals'), items, storedManifest(1, code))
    const args = ['eval', 'regrade', folder, '--grader', path.join(root, 'rollouts/own/grader.ts')]
    const { stdout, stderr } = await run(args)
    expect(stderr).toBe('')
    expect(stdout).toContain('mean reward 1 → 0.25.')
  })

  it('leaves out means where no rollout has a reward any more', async () => {
    const folder = await storeRun(temporaryFolder(), [storedItem(0, 'zero', 0)])
    const file = path.join(temporaryFolder(), 'broken.ts')
    writeFileSync(file, "export const broken = () => { throw new Error('no') }\n")
    const { code, stdout } = await run(['eval', 'regrade', folder, '--grader', file])
    expect(code).toBe(1)
    expect(stdout).toContain(`No verdict has changed.
1 reward differs, without a change of the verdict.
Pass rate 0.0 % → 0.0 %.
`)
  })

  it('refuses what cannot be meant', async () => {
    const folder = await storeRun(temporaryFolder(), [storedItem(0, 'zero', 1)])
    const refusals: [string[], string][] = [
      [['nowhere'], 'There is no run nowhere'],
      [[folder, '--filter', 'is:odd'], 'Cannot filter by is:odd'],
      [[folder, '--filter', 'row:7'], "is in 'row:7'"],
      [[folder, '--as', 'original'], 'has a meaning of its own'],
      [[folder, '--as', '../x'], 'The name of a grading has up to 96'],
      [[folder, '--break-lock'], '--break-lock goes with --adopt'],
      [[folder, '--watch', '--adopt'], '--watch grades again and again'],
      [[folder, '--adopt', 'none', '--yes'], 'has no grading none'],
      [[folder, '--grader', 'nothing.ts'], 'There is no grader file'],
      [[`${folder}@strict`], 'leave out @strict'],
    ]
    for (const [args, message] of refusals) {
      const { code, stderr } = await run(['eval', 'regrade', ...args])
      expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(message) })
    }
    await run(['eval', 'regrade', folder, '--as', 'mine'])
    expect(await run(['eval', 'regrade', folder, '--as', 'mine'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('mine is there already. Replace it? Nobody can be asked'),
    })
  })
})

describe('osmosis eval regrade --watch', () => {
  it('grades again when the grader or an import is saved, waits through mistakes, and ends with 130', async () => {
    const folder = await storeRun(temporaryFolder(), [storedItem(0, 'zero', 1)])
    const sources = temporaryFolder()
    const helper = (value: string): string =>
      moduleIn(sources, 'helper.ts', `export const value: number = ${value}\n`)
    helper('0.25')
    const file = moduleIn(
      sources,
      'watched.ts',
      `import { value } from './helper'
      export const watched = () => value`,
    )
    const command = startOsmosis(['eval', 'regrade', folder, '--grader', file, '--watch'])
    await command.printed(/mean reward 1 → 0\.25\.[^]*Waiting for the grader/)
    helper('0.5')
    await command.printed(/mean reward 1 → 0\.5\.[^]*Waiting for the grader/)
    helper('0.5 +')
    await command.printed(/error: Cannot load the grader[^]*Waiting for the grader/)
    helper('0.75')
    await command.printed(/mean reward 1 → 0\.75\.[^]*Waiting for the grader/)
    command.child.kill('SIGINT')
    expect((await command.finished).code).toBe(130)
    const reader = await openRun(folder)
    expect(await reader.gradings()).toEqual(['watched-1'])
    expect((await reader.grades('watched-1')).get('0.0')?.reward).toBe(0.75)
  })
})
