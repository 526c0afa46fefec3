import { readdirSync, readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import path from 'node:path'

import {
  defaultUpdate,
  openLocalLearner,
  type BatchSequence,
  type LocalLearner,
} from '@osmosis/train'
import { afterAll, beforeAll, expect } from 'vitest'

import { smallModel, vllmPython } from './vllm-server.ts'
import { withVllm } from './with-vllm.ts'

const { describe, it } = withVllm()

/** What is read of an answer. */
interface Answer {
  readonly model: string
  readonly prompt_token_ids: number[]
  readonly choices: [
    {
      readonly finish_reason: string
      readonly token_ids: number[]
      readonly message: { readonly content: string | null }
      readonly logprobs: { readonly content: { readonly logprob: number }[] }
    },
  ]
}

let learner: LocalLearner
let folder: string
let log: string

async function ask(
  content: string,
  more: Readonly<Record<string, unknown>> = {},
): Promise<{ status: number; text: string }> {
  const messages = [{ role: 'user', content }]
  const answer = await learner.policy.respond({
    rolloutId: content,
    sampleId: 'main',
    headers: {},
    body: { messages, max_tokens: 16, temperature: 1, logprobs: true, ...more },
    signal: AbortSignal.timeout(600_000),
  })
  return { status: answer.status, text: await answer.text() }
}

async function answered(
  content: string,
  more: Readonly<Record<string, unknown>> = {},
): Promise<Answer> {
  const { status, text } = await ask(content, more)
  expect([status, text]).toEqual([200, expect.stringContaining('choices')])
  return JSON.parse(text) as Answer
}

/** The sequence of an answer, as a batch has it. */
function sequenceOf(answer: Answer, advantage: number): BatchSequence {
  const [{ token_ids: ids, logprobs }] = answer.choices
  const prompt = answer.prompt_token_ids
  const version = Number(answer.model.split('-').at(-1))
  const behind = (value: number): number[] => ids.map(() => value)
  return {
    ids: [...prompt, ...ids],
    logprobs: [...prompt.map(() => 0), ...logprobs.content.map(({ logprob }) => logprob)],
    advantages: [...prompt.map(() => 0), ...behind(advantage)],
    mask: [...prompt.map(() => 0 as const), ...ids.map(() => 1 as const)],
    temperature: 1,
    rolloutId: answer.model,
    sampleId: 'main',
    policyVersion: version,
    newestVersion: version,
  }
}

async function sequences(topic: string): Promise<BatchSequence[]> {
  const topics = [1, 2, 3, 4].map((number) => `Write a line about ${topic} number ${number}.`)
  const answers = await Promise.all(topics.map((one) => answered(one)))
  return answers.map((answer, at) => sequenceOf(answer, at % 2 === 0 ? 1 : -1))
}

/** The processes of the group of `vllm serve`. */
function processesOf(group: string): string[] {
  return readdirSync('/proc').filter((name) => {
    if (!/^\d+$/.test(name)) return false
    try {
      const [state, , own] =
        readFileSync(`/proc/${name}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
      return own === group && state !== 'Z'
    } catch {
      // It has ended.
      return false
    }
  })
}

function vllmServe(): string {
  const found = readdirSync('/proc').find((name) => {
    try {
      const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').split('\0')
      return command.includes('serve') && command.includes('--enable-lora')
    } catch {
      return false
    }
  })
  if (found === undefined) throw new Error('vllm serve does not run.')
  return found
}

// In this order: each test goes on with the learner of the one before, because a start takes minutes.
describe('vLLM samples for the learner of this machine', () => {
  beforeAll(async () => {
    const model = await smallModel()
    folder = path.dirname(model)
    log = path.join(folder, 'learner.log')
    learner = await openLocalLearner({
      model,
      python: vllmPython(),
      sampler: 'vllm',
      maxLength: 4096,
      batch: 8,
      logFile: log,
    })
  })
  afterAll(async () => {
    await learner?.close()
    await rm(folder, { recursive: true, force: true })
  })

  it('and says of how much memory that takes', () => {
    expect(learner.facts.sampler).toBe('vllm')
    const { needed, cache, weights } = learner.facts.memory
    expect(cache).toBeGreaterThan(weights)
    expect(needed).toBeLessThan(16e9)
  })

  it('with logprobs that are the learner’s, also of the version before beside those of now', async () => {
    const old = await sequences('the sea')
    const settings = { ...defaultUpdate, learningRate: 1e-3 }
    const first = await learner.update({ loss: 'policy_gradient', sequences: old }, settings)
    expect(first.driftMean).toBeLessThan(1e-3)
    const fresh = await sequences('the moon')
    expect(fresh.map(({ policyVersion }) => policyVersion)).toEqual([1, 1, 1, 1])
    const batch = { loss: 'policy_gradient', sequences: [...old, ...fresh] } as const
    const second = await learner.update(batch, settings)
    expect(second.driftMean).toBeLessThan(1e-3)
    expect(second.driftMax).toBeLessThan(1e-2)
  })

  it('whole prompts of more than 2,048 tokens that wait for one another', async () => {
    const long = (word: string): string => `${`${word} `.repeat(2300)}. Which word was that?`
    const answers = await Promise.all(['sea', 'moon', 'sun'].map((word) => answered(long(word))))
    for (const { prompt_token_ids: prompt } of answers) {
      expect(prompt.length).toBeGreaterThan(2048)
    }
  })

  it('up to a stop text that is a special token', async () => {
    const answer = await answered('Say hi.', {
      stop: ['<|im_end|>'],
      temperature: 0,
      max_tokens: 64,
    })
    const [{ finish_reason: finish, message }] = answer.choices
    expect(finish).toBe('stop')
    expect(message.content).not.toContain('<|im_end|>')
  })

  it('and refuses temperatures that vLLM refuses or changes', async () => {
    for (const temperature of [0.005, 2.5]) {
      const { status, text } = await ask('Say hi.', { temperature })
      expect([status, text]).toEqual([400, expect.stringContaining('from 0.01 to 2')])
    }
  })

  it('without a line for each call in the log', () => {
    expect(readFileSync(log, 'utf8')).not.toMatch(/POST \/v1\/completions/)
  })

  it('until it is killed, which the training hears at once, and nothing of it stays', async () => {
    const serve = vllmServe()
    expect(processesOf(serve).length).toBeGreaterThan(2)
    process.kill(Number(serve), 'SIGKILL')
    await expect.poll(() => learner.died.aborted).toBe(true)
    const { message } = learner.died.reason as Error
    expect(message).toContain('vllm serve was ended by SIGKILL while it sampled for the training')
    expect(message).toContain(`what it printed is in ${log}`)
    expect(processesOf(serve)).toEqual([])
  })
})
