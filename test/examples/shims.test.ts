import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

import {
  AgentWorkflow,
  Grader,
  requireRolloutContext,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import { LocalBackend, createRolloutServer, serve } from '@osmosis/server'
import { expect, it, onTestFinished } from 'vitest'

import { temporaryFolder, withPrograms } from '../kit/index.ts'

const root = path.resolve(import.meta.dirname, '../..')
const python = promisify(execFile)

/** More than the threads that Python starts on its own for waiting, which are 32 at most. */
const meanwhile = 40

/**
 * Calls the policy twice, and throws in between: always for one row, and once for another. For a third it rewrites the
 * history, like an agent that reformats the JSON of its tool calls. Attempts at a fourth wait for each other. A fifth is
 * compacted with a call that is not training data.
 */
class AsksTwice extends AgentWorkflow {
  static broken = new Set<string>()
  static running = 0
  static most = 0
  static full = Promise.withResolvers<void>()

  async run({ prompt, metadata }: AgentWorkflowContext): Promise<unknown> {
    const id = String(metadata?.['id'])
    const policy = requireRolloutContext('AsksTwice').policy('sample')
    const messages = [...prompt]
    const questions = id === 'rewritten' ? ['again?', 'once more:', 'last.'] : ['again?']
    for (const question of [undefined, ...questions]) {
      if (question !== undefined) messages.push({ role: 'user', content: question })
      const { choices } = await policy.complete({ messages })
      if (choices[0] !== undefined) messages.push(choices[0].message)
      if (id === 'rewritten' && question !== 'once more:') {
        messages[messages.length - 1] = { role: 'assistant', content: 'in other words' }
      }
      if (id === 'compacted' && question === undefined) {
        const request = { messages: [...messages, { role: 'user', content: 'sum up' }] }
        await policy.complete(request, { purpose: 'summary', trainable: false })
        messages.splice(0, messages.length, { role: 'user', content: 'so far:' })
      }
      if (id === 'crowd' && question === undefined) {
        AsksTwice.running += 1
        AsksTwice.most = Math.max(AsksTwice.most, AsksTwice.running)
        if (AsksTwice.running === meanwhile) AsksTwice.full.resolve()
        await Promise.race([AsksTwice.full.promise, sleep(20_000, undefined, { ref: false })])
        AsksTwice.running -= 1
      }
      if (id === 'broken' || (id === 'flaky' && !AsksTwice.broken.has(id))) {
        AsksTwice.broken.add(id)
        throw new Error('the sandbox has exited')
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

/** A folder with the programs of the page, and with the stand-ins of the trainers. */
async function programs(): Promise<string> {
  const folder = await temporaryFolder()
  cpSync(path.join(import.meta.dirname, 'stand-ins'), folder, { recursive: true })
  cpSync(path.join(root, 'examples/trainers/python'), folder, { recursive: true })
  return folder
}

/** Runs the shims of the page with the stand-in of their trainer, and returns its output. */
async function stepOf(program: string, rows: readonly object[]): Promise<unknown> {
  AsksTwice.broken.clear()
  AsksTwice.running = 0
  AsksTwice.most = 0
  AsksTwice.full = Promise.withResolvers()
  const folder = await programs()
  const backend = new LocalBackend({
    workflow: AsksTwice,
    grader: IsLabel,
    maxConcurrent: 2 * meanwhile,
  })
  const server = createRolloutServer({ backend, run: true, trajectories: false, logger: false })
  const listening = await serve(server, { port: 0, handleSignals: false })
  onTestFinished(async () => listening.close({ waitSeconds: 0 }))
  const args = [path.join(folder, program), listening.url, JSON.stringify(rows)]
  const { stdout } = await python('python3', args, { cwd: folder })
  return JSON.parse(stdout) as unknown
}

type Pair = readonly [token: number, logprob: number]

interface Trained {
  readonly prompt: readonly object[]
  readonly input_ids: readonly number[]
  readonly completion_mask: readonly number[]
  readonly old_log_probs: readonly number[]
  readonly group_id: number
  readonly metrics: { readonly reward: number }
}

interface TrlStep {
  readonly error: string | null
  readonly asked: readonly object[]
  readonly sampled: Pair[]
  readonly trained: readonly Trained[]
  readonly warned: readonly string[]
}

async function trlStep(rows: readonly object[]): Promise<TrlStep> {
  return (await stepOf('trl_step.py', rows)) as TrlStep
}

/** The tokens of a row that are trained, each with its logprob. */
function trainedOf({ input_ids, completion_mask, old_log_probs }: Trained): Pair[] {
  expect(completion_mask).toHaveLength(input_ids.length)
  expect(old_log_probs).toHaveLength(input_ids.length)
  return input_ids.flatMap((token, at): Pair[] =>
    completion_mask[at] === 1 ? [[token, old_log_probs[at] ?? Number.NaN]] : [],
  )
}

interface TrinityExperience {
  readonly tokens: readonly number[]
  readonly prompt_length: number
  readonly logprobs: readonly number[]
  readonly action_mask: readonly boolean[]
}

/** What the policy said in a sequence; each of its tokens has a logprob, and no other has. */
function sampledText({ tokens, prompt_length, logprobs, action_mask }: TrinityExperience): string {
  expect(logprobs.map((logprob) => logprob !== 0)).toEqual(action_mask)
  const sampled = tokens.slice(prompt_length).filter((_, at) => action_mask[at] === true)
  return String.fromCodePoint(...sampled)
}

const right = { id: 'right', prompt: 'right!', label: '!?' }
const wrong = { id: 'wrong', prompt: 'wrong!', label: 'no' }
const flaky = { id: 'flaky', prompt: 'flaky!', label: '!?' }
const broken = { id: 'broken', prompt: 'broken!', label: '!?' }
const rewritten = { id: 'rewritten', prompt: 'json!', label: 'no' }
const compacted = { id: 'compacted', prompt: 'long!', label: 'no' }
const crowd = { id: 'crowd', prompt: 'crowd!', label: '!?', attempts: meanwhile }
const oversized = { ...rewritten, tokenBudget: 100 }
const letters = (text: string): number[] => Array.from(text, (letter) => letter.codePointAt(0) ?? 0)

withPrograms('python3').describe('the programs of docs/training/shims.md', () => {
  it('give TRL the sequences of each rollout, and nothing of one that failed', async () => {
    const step = await trlStep([right, wrong, flaky, broken])
    expect(step.error).toBeNull()
    expect(step.asked).toEqual([
      {
        model: 'Qwen/Qwen3-8B',
        max_tokens: 7,
        temperature: 1,
        return_token_ids: true,
      },
    ])
    const ofGroup = (group: number) => step.trained.filter(({ group_id }) => group_id === group)
    expect(
      [0, 1, 2, 3].map((group) => ofGroup(group).map(({ metrics }) => metrics.reward)),
    ).toEqual([[1, 1], [0.25, 0.25], [1, 1], []])
    const [first] = ofGroup(0)
    const asked = letters('user:right!;assistant:')
    const between = letters(';user:again?;assistant:')
    const context = (tokens: number[]): number[] => tokens.map(() => 0)
    expect(first?.input_ids).toEqual([...asked, ...letters('!'), ...between, ...letters('!?')])
    expect(first?.completion_mask).toEqual([...context(asked), 1, ...context(between), 1, 1])
    expect(first?.prompt).toMatchObject([{ role: 'user', content: 'right!' }])
    const refused = step.warned.filter((line) => line.startsWith('rollout refused'))
    expect(refused).toHaveLength(2)
    expect(refused[1]).toMatch(/^rollout refused, 2 of \d so far: none of 3 tries was completed$/)
  })

  it('give TRL every token that was sampled, with its logprob, even when the agent rewrites the history', async () => {
    const step = await trlStep([rewritten])
    expect(step.error).toBeNull()
    // Two attempts, which say !, !?, !?: and !?:. and of which the fourth alone continues with what was sampled.
    expect(step.sampled).toHaveLength(2 * (1 + 2 + 3 + 4))
    expect(step.trained).toHaveLength(2 * 3)
    expect(step.trained.map((row) => trainedOf(row).length).toSorted((a, b) => a - b)).toEqual([
      1, 1, 2, 2, 7, 7,
    ])
    const inOrder = (pairs: Pair[]): Pair[] => pairs.toSorted(([, a], [, b]) => b - a)
    expect(inOrder(step.trained.flatMap(trainedOf))).toEqual(inOrder(step.sampled))
    expect(new Set(step.trained.map(({ metrics }) => metrics.reward))).toEqual(new Set([0.25]))
  })

  it('give TRL each part of a compacted conversation, without the call that compacted it', async () => {
    const step = await trlStep([compacted])
    expect(step.error).toBeNull()
    const texts = step.trained.map(({ input_ids }) => String.fromCodePoint(...input_ids))
    expect(new Set(texts)).toEqual(
      new Set(['user:long!;assistant:!', 'user:so far:;user:again?;assistant::?']),
    )
    const sizes = step.trained.map((row) => trainedOf(row).length)
    expect(sizes.toSorted((a, b) => a - b)).toEqual([1, 1, 2, 2])
  })

  it('give TRL nothing of a rollout of which it would drop a sequence, and count it', async () => {
    const { error, sampled, trained, warned } = await trlStep([oversized])
    expect({ error, trained }).toEqual({ error: null, trained: [] })
    expect(sampled).toHaveLength(2 * (1 + 2 + 3 + 4))
    const why = 'sequences of [22, 60, 128] tokens (10 of them sampled), and a token_budget of 100'
    expect(warned).toEqual([1, 2].map((n) => `rollout refused, ${n} of ${n} so far: ${why}`))
  })

  it('refuse a TRL with another rollout loop, and say which one they need', async () => {
    const folder = await programs()
    const trl = path.join(folder, 'trl')
    rmSync(trl, { recursive: true })
    mkdirSync(trl)
    writeFileSync(path.join(trl, '__init__.py'), '')
    mkdirSync(path.join(folder, 'trl-1.18.2.dist-info'))
    writeFileSync(
      path.join(folder, 'trl-1.18.2.dist-info/METADATA'),
      'Metadata-Version: 2.1\nName: trl\nVersion: 1.18.2\n',
    )
    await expect(python('python3', ['trl_rollouts.py'], { cwd: folder })).rejects.toThrow(
      'TRL 1.18.2 is installed: install trl==1.16.0',
    )
  })

  it('end the training of TRL where the model server gives no token ids', async () => {
    const { error, trained } = await trlStep([{ id: 'right', prompt: 'no ids!', label: '!?' }])
    expect(error).toContain('the policy gave no token ids: vLLM 0.10.2 and newer give')
    expect(trained).toEqual([])
  })

  it('end the training of TRL at two different rows with one prompt', async () => {
    const { error } = await trlStep([right, { ...right, label: 'another' }])
    expect(error).toContain('two different rows have this prompt')
  })

  it('say why a trace cannot be trained as a whole', async () => {
    const folder = await programs()
    writeFileSync(
      path.join(folder, 'main.py'),
      `
from osmosis_run import sequences
call = {"trainable": False, "untrainable_reason": "the policy gave 1 logprobs for 2 tokens"}
try:
    sequences({"trace": [{"calls": [call]}]})
except ValueError as error:
    print(error)
`,
    )
    const { stdout } = await python('python3', [path.join(folder, 'main.py')], { cwd: folder })
    expect(stdout).toMatch(/^the policy gave 1 logprobs for 2 tokens: vLLM/)
  })

  const title = `run ${meanwhile} rollouts at once, with any number of cores`
  it(`${title} (trl_step.py)`, async () => {
    await stepOf('trl_step.py', [crowd])
    expect(AsksTwice.most).toBe(meanwhile)
  })
  it.each(['slime_step.py', 'verifiers_step.py'])(
    `${title} (%s)`,
    { tags: 'slow' },
    async (program) => {
      await stepOf(program, [crowd])
      expect(AsksTwice.most).toBe(meanwhile)
    },
  )

  it('give slime the samples of its adapter, and drop a group with a failure', async () => {
    const step = (await stepOf('slime_step.py', [right, broken])) as {
      completed: boolean[]
      samples: { status: string; reward: number; metadata: object }[][]
    }
    expect(step.completed).toEqual([true, false])
    expect(step.samples[0]).toMatchObject([
      { reward: 1, status: 'COMPLETED', metadata: { exit_status: 'completed', id: 'right' } },
      { reward: 1, status: 'COMPLETED' },
    ])
    expect(step.samples[1]).toMatchObject([{ status: 'FAILED' }, { status: 'FAILED' }])
  })

  it('give rLLM the reward of a session, and an exception that has it run again', async () => {
    const error = expect.stringContaining(': the sandbox has exited') as string
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

  it('give Trinity the sequences of a rollout as experiences, and an exception for a failure', async () => {
    const step = (await stepOf('trinity_step.py', [right, rewritten, broken])) as {
      runs: { error?: string; experiences?: TrinityExperience[] }[]
      asked: object[]
    }
    const [first, , split, , failed] = step.runs
    expect(first?.experiences).toMatchObject([{ eid: { step: 0 }, reward: 1 }])
    // Both answers of the agent are trained, with the logprobs that the model server gave.
    expect(first?.experiences?.map(sampledText)).toEqual(['!!?'])
    expect(split?.experiences).toMatchObject(
      [0, 1, 2].map((at) => ({ eid: { step: at }, reward: 0.25 })),
    )
    expect(failed).toEqual({ error: expect.stringContaining(': the sandbox has exited') as string })
    expect(new Set(step.asked.map((settings) => JSON.stringify(settings)))).toEqual(
      new Set(['{"model":"policy","temperature":1,"top_p":0.5,"max_tokens":7}']),
    )
  })

  it('include the filter for Miles, which keeps groups that were completed alone', async () => {
    const page = readFileSync(path.join(root, 'docs/operating/serving.md'), 'utf8')
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
