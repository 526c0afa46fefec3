import { execFile } from 'node:child_process'
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

import {
  AgentWorkflow,
  Grader,
  LocalBackend,
  requireRolloutContext,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import { createRolloutServer, serve } from '@osmosis/server'
import { temporaryFolder, withPrograms } from '@osmosis/testing/kit'
import { expect, it, onTestFinished } from 'vitest'

const root = path.resolve(import.meta.dirname, '../..')
const python = promisify(execFile)

/** Asks twice, and breaks down in between: always for one row, and once for another. */
class AsksTwice extends AgentWorkflow {
  static broken = new Set<string>()

  async run({ prompt, metadata }: AgentWorkflowContext): Promise<unknown> {
    const policy = requireRolloutContext('AsksTwice').policy('sample')
    const messages = [...prompt]
    for (const question of [undefined, { role: 'user', content: 'again?' }]) {
      if (question !== undefined) messages.push(question)
      const { choices } = await policy.complete({ messages })
      if (choices[0] !== undefined) messages.push(choices[0].message)
      const id = String(metadata?.['id'])
      if (id === 'broken' || (id === 'flaky' && !AsksTwice.broken.has(id))) {
        AsksTwice.broken.add(id)
        throw new Error('the sandbox is gone')
      }
    }
    return messages
  }
}

class IsLabel extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    const last = ctx.sample.messages.at(-1) as { content: string }
    ctx.setReward(last.content === ctx.label ? 1 : 0.25)
  }
}

/** Runs the shims of the page under what plays their trainer, and returns what that printed. */
async function stepOf(program: string, rows: readonly object[]): Promise<unknown> {
  AsksTwice.broken.clear()
  const folder = await temporaryFolder()
  cpSync(path.join(import.meta.dirname, 'stand-ins'), folder, { recursive: true })
  const page = readFileSync(path.join(root, 'docs/training/shims.md'), 'utf8')
  for (const [, text = '', file = ''] of page.matchAll(/^```python\n(# (\S+\.py)\n[^]*?)^```$/gm)) {
    writeFileSync(path.join(folder, file), text)
  }
  const backend = new LocalBackend({ workflow: AsksTwice, grader: IsLabel })
  const server = createRolloutServer({ backend, run: true, trajectories: false, logger: false })
  const listening = await serve(server, { port: 0, handleSignals: false })
  onTestFinished(async () => listening.close({ waitSeconds: 0 }))
  const args = [path.join(folder, program), listening.url, JSON.stringify(rows)]
  const { stdout } = await python('python3', args, { cwd: folder })
  return JSON.parse(stdout) as unknown
}

const right = { id: 'right', prompt: 'right!', label: '!?' }
const wrong = { id: 'wrong', prompt: 'wrong!', label: 'no' }
const flaky = { id: 'flaky', prompt: 'flaky!', label: '!?' }
const broken = { id: 'broken', prompt: 'broken!', label: '!?' }
const letters = (text: string): number[] => Array.from(text, (letter) => letter.codePointAt(0) ?? 0)

withPrograms('python3').describe('the shims of docs/training/shims.md', () => {
  it('give TRL one sequence for each prompt, and none to learn from where it failed', async () => {
    const step = (await stepOf('trl_step.py', [right, wrong, flaky, broken])) as Record<
      string,
      unknown[]
    >
    expect(step['rewards']).toEqual([1, 1, 0.25, 0.25, 1, 1, null, null])
    const between = ';user:again?;assistant:'
    expect(step['prompt_ids']?.[0]).toEqual(letters('user:right!;assistant:'))
    expect(step['completion_ids']?.[0]).toEqual(letters(`!${between}!?`))
    expect(step['env_mask']?.[0]).toEqual([1, ...letters(between).map(() => 0), 1, 1])
    expect(step['logprobs']?.[0]).toEqual([-0.5, ...letters(between).map(() => 0), -0.5, -0.5])
    expect(step['env_mask']?.at(-1)).toEqual([0])
  })

  it('give slime the samples of its adapter, and drop a group with a failure', async () => {
    const step = (await stepOf('slime_step.py', [right, broken])) as {
      kept: boolean[]
      samples: { status: string; reward: number; metadata: object }[][]
    }
    expect(step.kept).toEqual([true, false])
    expect(step.samples[0]).toMatchObject([
      { reward: 1, status: 'COMPLETED', metadata: { exit_status: 'completed', id: 'right' } },
      { reward: 1, status: 'COMPLETED' },
    ])
    expect(step.samples[1]).toMatchObject([{ status: 'FAILED' }, { status: 'FAILED' }])
  })

  it('give rLLM the reward of a session, and an exception that has it run again', async () => {
    const error = expect.stringContaining('rollout failed: the sandbox is gone') as string
    expect(await stepOf('rllm_step.py', [right, flaky, broken])).toEqual([
      { id: 'right', reward: 1, traces: 2 },
      { id: 'flaky', error },
      { id: 'flaky', reward: 1, traces: 2 },
      { id: 'broken', error },
      { id: 'broken', error },
      { id: 'broken', error },
    ])
  })

  it('give verifiers the reward of what its endpoint recorded, and an error for a failure', async () => {
    expect(await stepOf('verifiers_step.py', [right, broken])).toEqual([
      { exit_code: 0, calls: 2, reward: 1 },
      { exit_code: 1, calls: 1 },
    ])
  })

  it('include the filter for Miles, which keeps groups that were completed alone', async () => {
    const page = readFileSync(path.join(root, 'docs/serving.md'), 'utf8')
    const [, filter = ''] = /^```python\n(# keep_completed\.py[^]*?)^```$/m.exec(page) ?? []
    const folder = await temporaryFolder({
      'keep_completed.py': filter,
      'main.py': `
from types import SimpleNamespace
from keep_completed import keep_completed
ended = lambda *ends: [SimpleNamespace(metadata={"exit_status": end} if end else {}) for end in ends]
done = ended("completed", "completed")
print([keep_completed(None, group) for group in (done, [done, done], ended("completed", "failed"), ended("completed", None), [done, ended("removed")])])
`,
    })
    const { stdout } = await python('python3', [path.join(folder, 'main.py')], { cwd: folder })
    expect(stdout).toBe('[True, True, False, False, False]\n')
  })
})
