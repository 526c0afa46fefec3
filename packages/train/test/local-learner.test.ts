import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import {
  AgentWorkflow,
  Grader,
  lastAssistantText,
  requireRolloutContext,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import type { ChatCompletion, ChatMessage } from '@osmosis/core/policy'
import type { DatasetRow } from '@osmosis/eval'
import { createRolloutServer, LocalBackend, serve } from '@osmosis/server'
import {
  localLearnerIdentity,
  servedRollouts,
  train,
  type LocalLearner,
  type TrainOptions,
} from '@osmosis/train'
import { expect, onTestFinished } from 'vitest'

import { pythonWithTorch, temporaryFolder, withTorch } from '../../../test/kit/index.ts'
import { tableLearner } from './reference/table-learner.ts'

const { it } = withTorch()

interface Asked {
  readonly rolloutId: string
  readonly first: ChatCompletion
}

async function ask(
  { policy }: LocalLearner,
  rolloutId: string,
  messages: readonly ChatMessage[],
  more: object = {},
): Promise<ChatCompletion> {
  const body = { messages, max_tokens: 1, logprobs: true, return_token_ids: true, ...more }
  const { signal } = new AbortController()
  const answer = await policy.respond({ rolloutId, sampleId: 's', body, headers: {}, signal })
  return (await answer.json()) as ChatCompletion
}

it('conversations of two rollouts that say the same continue with their own tokens', async () => {
  const learner = await tableLearner()
  const question: ChatMessage = { role: 'user', content: 'a' }
  // Two tokens of the policy are the same letter.
  const byText = new Map<string, Map<number, Asked>>()
  let twins: readonly Asked[] = []
  for (let seed = 0; twins.length < 2; seed += 1) {
    const rolloutId = `rollout-${seed}`
    const first = await ask(learner, rolloutId, [question], { seed })
    const { message, token_ids: ids } = first.choices[0] ?? {}
    const same = byText.get(`${message?.content}`) ?? new Map<number, Asked>()
    byText.set(`${message?.content}`, same.set((ids as number[])[0] ?? 0, { rolloutId, first }))
    twins = [...same.values()]
  }
  for (const { rolloutId, first } of twins) {
    const choice = first.choices[0]
    const said: ChatMessage = { role: 'assistant', content: choice?.message.content ?? '' }
    const second = await ask(learner, rolloutId, [question, said, { role: 'user', content: 'b' }])
    const prompt = first['prompt_token_ids'] as number[]
    const before = [...prompt, ...(choice?.token_ids ?? [])]
    expect((second['prompt_token_ids'] as number[]).slice(0, before.length)).toEqual(before)
  }
})

it('a disk that is full is named, and nothing is left of what was saved in part', async () => {
  const folder = await temporaryFolder()
  // Files that cannot grow beyond 2 KiB are refused as on a full disk. Without -B Python would leave half of its compiled modules in
  // the learner's folder, with which no learner starts.
  const limited = path.join(folder, 'python')
  writeFileSync(limited, `#!/bin/sh\nulimit -f 4\nexec ${pythonWithTorch()} -B "$@"\n`)
  chmodSync(limited, 0o755)
  const learner = await tableLearner({ python: limited })
  const saved = path.join(folder, 'saved')
  await expect(learner.save(saved)).rejects.toMatchObject({
    code: 'storage_error',
    message: expect.stringMatching(
      /^Cannot write to .*saved: the disk is full or has a limit\. \d+ MiB are free there\./,
    ),
  })
  expect(existsSync(saved)).toBe(false)
})

it('says what the files of its model are', async () => {
  const folderWith = async (files: readonly (readonly [name: string, text: string])[]) => {
    const model = await temporaryFolder()
    for (const [name, text] of files) {
      mkdirSync(path.dirname(path.join(model, name)), { recursive: true })
      writeFileSync(path.join(model, name), text)
    }
    return model
  }
  const filesOf = async (...files: (readonly [name: string, text: string])[]) => {
    const facts = { model: 'table', revision: null }
    return (await localLearnerIdentity({ model: await folderWith(files) }, facts)).modelFiles
  }
  const same = [
    ['config.json', '{}'],
    ['weights/a', 'abc'],
  ] as const
  const first = await filesOf(...same)
  expect(first).toMatch(/^5 bytes, sha256 [\da-f]{64}$/)
  expect((await tableLearner({ model: await folderWith(same) })).modelFiles).toBe(first)
  expect(await filesOf(['weights/a', 'abc'], ['config.json', '{}'], ['.cache/x', '1'])).toBe(first)
  const others = await Promise.all([
    filesOf(['config.json', '{}'], ['weights/a', 'abd']),
    filesOf(['config.json', '{}'], ['weights/b', 'abc']),
    filesOf(['config.json', '{}abc'], ['weights/a', '']),
    filesOf(['config.json', '{}']),
  ])
  expect(new Set([first, ...others]).size).toBe(5)
})

/** Says one thing, and is rewarded for the letter e. */
class SaysLetters extends AgentWorkflow {
  async run({ prompt }: AgentWorkflowContext): Promise<ChatMessage[]> {
    const policy = requireRolloutContext('SaysLetters').policy('sample')
    const { choices } = await policy.complete({ messages: [...prompt] })
    return [...prompt, ...choices.map(({ message }) => message)]
  }
}

class LikesOneLetter extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    ctx.setReward(lastAssistantText(ctx.sample).split(ctx.label ?? 'none').length - 1)
  }
}

it(
  'a seed repeats a training to the last bit, however many answers are sampled together, also in parts',
  { tags: 'slow', timeout: 600_000 },
  async () => {
    const backend = new LocalBackend({ workflow: SaysLetters, grader: LikesOneLetter })
    const app = createRolloutServer({ backend, trajectories: false, logger: false })
    const server = await serve(app, { port: 0, handleSignals: false })
    onTestFinished(() => server.close())
    const rows = ['a', 'b', 'c'].map((content, at): DatasetRow => ({
      sourceRowIndex: at,
      initialMessages: [{ role: 'user', content }],
      label: 'e',
      metadata: null,
      otherColumns: {},
    }))
    const trained = async (seed: number, maxInFlight: number, starts = 1) => {
      const folder = await temporaryFolder()
      for (let start = 1; start < starts; start += 1) {
        const interrupt = new AbortController()
        const stop = () => interrupt.abort(new Error('interrupted'))
        const part = trainedIn(folder, {
          seed,
          maxInFlight,
          signal: interrupt.signal,
          onStep: stop,
        })
        await expect(part).rejects.toThrow('interrupted')
      }
      return trainedIn(folder, { seed, maxInFlight })
    }
    const trainedIn = async (
      folder: string,
      { seed, ...more }: { seed: number } & Partial<TrainOptions>,
    ) => {
      const learner = await tableLearner({ seed, microBatchTokens: 64 }, 'CrowdedPolicy')
      const { steps } = await train({
        folder,
        learner,
        rollouts: servedRollouts({ server: { url: server.url }, sampling: { max_tokens: 40 } }),
        rows,
        steps: 3,
        rowsPerStep: 2,
        attempts: 4,
        update: { learningRate: 0.2, epochs: 2, minibatches: 2 },
        seed,
        ...more,
      })
      await learner.export(path.join(folder, 'model'))
      const weights = readFileSync(path.join(folder, 'model', 'weights.json'), 'utf8')
      const { reward } = steps.at(-1)?.rollouts ?? {}
      return { reward, drift: steps.map(({ update }) => update?.driftMax), weights }
    }
    const first = await trained(1, 8)
    expect(first.reward).toBeGreaterThan(0)
    expect(await trained(1, 1, 2)).toEqual(first)
    expect((await trained(2, 8)).weights).not.toEqual(first.weights)
  },
)
