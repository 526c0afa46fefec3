import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { openRun } from '@osmosis/eval'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

import { core, moduleIn } from './grader-modules.ts'
import { inWorkspace, run, start } from './in-process.ts'
import { temporaryFolder } from './osmosis.ts'
import { storedItem, storedManifest, storeRun } from './stored-runs.ts'

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

  it('gives the grader the secrets of the run, and shows none', async () => {
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

  it.each<[string, string]>([
    ['base64', "Buffer.from(key).toString('base64')"],
    ['base64 of a user and it', "Buffer.from('user:' + key).toString('base64')"],
    ['base64 with a byte before it', "Buffer.from('x' + key + 'y').toString('base64')"],
    ['base64url', "Buffer.from(':' + key).toString('base64url')"],
    ['a URL', 'encodeURIComponent(key)'],
    ['JSON in JSON', 'JSON.stringify(JSON.stringify({ key }))'],
    [
      'HTML',
      "key.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll(String.fromCharCode(34), '&quot;')",
    ],
  ])('shows no secret in its form as %s', async (_name, form) => {
    const key = 'sesame-9/?>&<"+key'
    const items = [storedItem(0, 'zero', 1)]
    const folder = await storeRun(
      temporaryFolder(),
      items,
      storedManifest(1, {}, { secrets: ['KEY'] }),
    )
    const file = moduleIn(
      temporaryFolder(),
      'form.ts',
      `export const form = () => {
        const key = process.env.KEY
        const text = ${form}
        console.log('as', text)
        throw new Error('so ' + text)
      }`,
    )
    const { stdout, stderr } = await run(['eval', 'regrade', folder, '--grader', file], {
      KEY: key,
    })
    const stored = readFileSync(path.join(folder, 'grades/form-1.jsonl'), 'utf8')
    for (const text of [stdout, stderr, stored]) {
      expect(text).toContain('[redacted]')
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
      [[folder, '--filter', 'is:odd'], 'Cannot filter by is:odd'],
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
