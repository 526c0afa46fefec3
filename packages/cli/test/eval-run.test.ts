import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

import { resumeRun } from '@osmosis/eval'
import { describe, expect, it } from 'vitest'

import { evaluate, inWorkspace, readResults, run, useProcesses } from './in-process.ts'
import { endpoint, say } from './model-endpoint.ts'
import { temporaryFolder } from './osmosis.ts'
import { evalConfig, temporaryWorkspace } from './temporary-workspace.ts'

inWorkspace()

const rewards = 'rollouts/agent-loops/rewards.ts'

describe('osmosis eval run, a workflow', () => {
  it('runs every row as often as it should and reports what the files say, also later, for one process at a time', async () => {
    const output = temporaryFolder()
    const flags = ['--output', output, '--name', 'first']
    const { code, stdout, stderr } = await run(['eval', 'run', 'configs/eval/echo.toml', ...flags])
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: expect.stringContaining('8/8 rollouts  75 % passed'),
    })
    expect(stdout).toMatch(/^Pass rate +75\.0 % +6 of 8 /m)
    expect(stdout).toContain(path.join(output, 'first'))

    const { records, run: facts, summary } = readResults(path.join(output, 'first'))
    expect(
      records.map(({ row_index, run_index, status, reward }) => [
        row_index,
        run_index,
        status,
        reward,
      ]),
    ).toEqual([
      [0, 0, 'success', 1],
      [0, 1, 'success', 1],
      [1, 0, 'success', 1],
      [1, 1, 'success', 1],
      [2, 0, 'success', 0],
      [2, 1, 'success', 0],
      [3, 0, 'success', 1],
      [3, 1, 'success', 1],
    ])
    expect(facts).toMatchObject({ status: 'finished', name: 'first', rollout_name: 'echo' })
    expect(summary).toMatchObject({ total_samples: 8, passed: 6, pass_rate: 0.75, failed: 0 })
    expect(readdirSync(path.join(output, 'first')).toSorted()).toEqual([
      'events.jsonl',
      'index.jsonl',
      'logs.txt',
      'manifest.json',
      'metrics.json',
      'progress.json',
      'samples',
      'trajectories',
    ])

    // What has ended is reported again, and nothing is served for it.
    const again = ['eval', 'run', 'configs/eval/echo.toml', ...flags]
    const judged = await run([...again, '--json', '--min-pass-rate', '0.8'])
    expect(judged.code).toBe(3)
    expect(judged.stderr).toContain(
      'error: The pass rate is 75.0 %, and --min-pass-rate requires 80.0 %.\n',
    )
    expect(JSON.parse(judged.stdout)).toMatchObject({
      eval_run: { name: 'first', status: 'finished' },
      summary: { passed: 6 },
      stats: { pass_rate: { value: 0.75 } },
      location: path.join(output, 'first'),
    })
    expect((await run([...again, '--min-pass-rate', '0.75'])).code).toBe(0)

    await using writer = await resumeRun({ location: path.join(output, 'first') })
    expect(writer.events.size).toBe(8)
    const locked = await run([...again, '--quiet'])
    expect([locked.code, locked.stderr]).toEqual([
      1,
      expect.stringMatching(
        new RegExp(
          `^error: Process ${process.pid}, started at .*Z, writes to the run .*/first\\. `,
        ),
      ),
    ])
  })

  it('takes eval functions, as an agent loop does', async () => {
    const upstream = await endpoint((_, response) => say(response, 'one'))
    const flags = `--rows 0-1 --base-url ${upstream.url}/v1 --model new`
    const { code, stdout, records, summary, stderr } = await evaluate(
      `configs/eval/echo-once.toml ${flags} --details`,
      `--eval-fn ${rewards}:exact --eval-fn ${rewards}:notANumber`,
    )
    expect(records.map(({ reward, scores }) => [reward, scores])).toEqual([
      [1, { [`${rewards}:exact`]: 1 }],
      [0, { [`${rewards}:exact`]: 0 }],
    ])
    const half = { graded: 2, passed: 1, pass_rate: 0.5 }
    expect(summary.scores).toMatchObject({
      [`${rewards}:exact`]: half,
      [`${rewards}:notANumber`]: { graded: 0 },
    })
    expect(stdout).toMatch(/^Reward +0\.5$/m)
    expect(code).toBe(1)
    expect(stderr).toContain(`error: ${rewards}:notANumber scored no rollout of new.\n`)
  })

  it(
    'ends with 1 and the last output of a server that exits, and logs all that it printed, however much',
    { tags: 'slow' },
    async () => {
      useProcesses()
      const main = `import { AgentWorkflow, Grader } from '@osmosis/core'
export class Verbose extends AgentWorkflow {
  async run() {
    for (let line = 0; line < 4; line++) {
      // Half a line is read when a line of the other stream comes.
      process.stdout.write('long'.repeat(125_000))
      console.error('beside')
      console.log('long'.repeat(125_000))
    }
    console.error('about to exit')
    await new Promise((resolve) => process.stdout.write('done', resolve))
    process.reallyExit(7)
  }
}
export class Silent extends Grader {
  async grade() {}
}
`
      const root = temporaryWorkspace({
        'rollouts/verbose/main.ts': main,
        'configs/eval/verbose.toml': evalConfig('verbose'),
      })
      const words =
        'eval run configs/eval/verbose.toml --policy policies/echo.ts --limit 1 --name r'
      const { code, stdout, stderr } = await run(words.split(' '), {}, root)
      expect([code, stderr.length < 30_000]).toEqual([1, true])
      expect(stdout).toContain('incomplete')
      expect(stderr).toMatch(
        /The rollout server exited with code 7\. Its last output:\n.*about to exit.*\nThe whole output is in .*\/r\/logs\.txt\.\n/s,
      )
      const folder = path.join(root, '.osmosis/evals/r')
      expect(readFileSync(path.join(folder, 'events.jsonl'), 'utf8')).toBe('')
      const log = readFileSync(path.join(folder, 'logs.txt'), 'utf8')
      expect(log).toContain('about to exit')
      const lines = log.split('\n')
      expect(lines.filter((line) => line === 'beside')).toHaveLength(4)
      expect(lines.filter(({ length }) => length === 1_000_000)).toHaveLength(4)
    },
  )

  it('ends with the last output of a server that exits before its first rollout', async () => {
    useProcesses()
    // The first request asks how busy it is.
    const main = `import { Server } from 'node:http'
export { EchoWorkflow, EchoGrader } from '../echo/main.ts'
const { emit } = Server.prototype
Server.prototype.emit = function (name, ...args) {
  if (name !== 'request') return emit.call(this, name, ...args)
  process.stderr.write('no database\\n', () => process.reallyExit(7))
  return true
}
`
    const root = temporaryWorkspace({
      'rollouts/dying/main.ts': main,
      'configs/eval/dying.toml': evalConfig('dying'),
    })
    const words = 'eval run configs/eval/dying.toml --policy policies/echo.ts --name r'
    const { code, stderr } = await run(words.split(' '), {}, root)
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(
        /error: The rollout server exited with code 7\. Its last output:\n(?:.*\n)*no database\n/,
      ),
    ])
    expect(stderr).not.toContain('fetch failed')
  })
})
