import { appendFileSync, cpSync, existsSync, readFileSync } from 'node:fs'
import path from 'node:path'

import {
  defaultUpdate,
  openTinkerLearner,
  train,
  type BatchSequence,
  type TinkerLearner,
  type TinkerLearnerOptions,
  type TrainOptions,
  type TrainingBatch,
} from '@osmosis/train'
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from 'vitest'

import { FakeTinker, temporaryFolder, tokenModelFolder } from '../../../../test/kit/index.ts'
import { inParts, type Datum } from '../../src/tinker/service/tinker-data.ts'
import { doorRollouts, doors } from '../doors.ts'

const key = 'tml-0123456789'

let served: Awaited<ReturnType<typeof doorRollouts>>
beforeAll(async () => {
  served = await doorRollouts()
})
afterAll(() => served.close())

async function startedService(): Promise<FakeTinker> {
  const service = await new FakeTinker().start()
  onTestFinished(() => service[Symbol.asyncDispose]())
  return service
}

async function opened(
  service: FakeTinker,
  options: Partial<TinkerLearnerOptions> = {},
): Promise<TinkerLearner> {
  const learner = await openTinkerLearner({
    url: service.url,
    apiKey: key,
    baseModel: 'token-model',
    tokenizer: await tokenModelFolder(),
    maxLength: 64,
    ...options,
  })
  onTestFinished(() => learner.close())
  return learner
}

function training(learner: TinkerLearner, folder: string, steps: number): TrainOptions {
  return {
    folder,
    learner,
    rollouts: served.rollouts,
    rows: doors,
    steps,
    rowsPerStep: 2,
    attempts: 4,
    update: { learningRate: 0.1 },
    signal: learner.lost,
  }
}

/** A sequence of which the last two tokens were sampled. */
const sequence: BatchSequence = {
  ids: [2, 5, 0, 3, 6, 0],
  logprobs: [0, 0, 0, 0, -1, -2],
  advantages: [0, 0, 0, 0, 3, 3],
  mask: [0, 0, 0, 0, 1, 1],
  temperature: 1,
  rolloutId: 'r',
  sampleId: 's',
  policyVersion: 0,
  newestVersion: 0,
}

function batchOf(...sequences: readonly BatchSequence[]): TrainingBatch {
  return { loss: 'policy_gradient', sequences }
}

const anyDrift = { ...defaultUpdate, maxDrift: Infinity }

it('trains on a service, saves there, and continues from what it saved', async () => {
  const service = await startedService()
  const folder = await temporaryFolder()
  const first = await opened(service)
  const result = await train(training(first, folder, 2))
  expect(first.version).toBe(2)
  for (const { update, sampledBy } of result.steps) {
    expect(update).toMatchObject({ driftMax: 0, entropy: expect.any(Number) })
    expect(sampledBy).toBeLessThan(2)
  }
  await first.close()
  expect(service.models).toEqual([])

  service.restart()
  const second = await opened(service)
  const more = await train(training(second, folder, 3))
  expect(more.steps.map(({ step }) => step)).toEqual([1, 2, 3])
  expect(second.version).toBe(3)
  // Weights are loaded by the first request of a model, which is the one that was made at the start.
  const [load] = service.sentTo('load_weights')
  expect(load).toMatchObject({ model_id: 'model_2', seq_id: 1, optimizer: true })
  expect(second.usage.trainedTokens).toBeGreaterThan(first.usage.trainedTokens)

  const exported = path.join(folder, 'model')
  await second.export(exported)
  const { path: weights } = JSON.parse(
    readFileSync(path.join(exported, 'tinker.json'), 'utf8'),
  ) as {
    path: string
  }
  expect(weights).toMatch(/^tinker:\/\/model_2\/sampler_weights\/osmosis-3-/)
})

it('numbers the requests of a model, and sends what the API has', async () => {
  const service = await startedService()
  const learner = await opened(service, { loraRank: 8, seed: 3 })
  await learner.update(batchOf(sequence, { ...sequence, ids: [2, 5, 0, 3, 7, 0] }), {
    ...anyDrift,
    learningRate: 0.5,
    epochs: 2,
  })
  const [made] = service.sentTo('create_model')
  expect(made).toEqual({
    session_id: 'session-1',
    model_seq_id: 0,
    base_model: 'token-model',
    lora_config: { rank: 8, seed: 3, train_attn: true, train_mlp: true, train_unembed: false },
    type: 'create_model',
  })
  const own = service.requests.filter(({ body }) => body['seq_id'] !== undefined)
  expect(own.map(({ route, body }) => [route, body['seq_id']])).toEqual([
    ['forward_backward', 1],
    ['optim_step', 2],
    ['forward_backward', 3],
    ['optim_step', 4],
    ['save_weights_for_sampler', 5],
  ])
  const [forward] = service.sentTo('forward_backward')
  expect(forward?.['forward_backward_input']).toEqual({
    data: [6, 7].map((letter) => ({
      model_input: { chunks: [{ type: 'encoded_text', tokens: [2, 5, 0, 3, letter] }] },
      loss_fn_inputs: {
        target_tokens: { data: [5, 0, 3, letter, 0], dtype: 'int64', shape: [5] },
        logprobs: { data: [0, 0, 0, -1, -2], dtype: 'float32', shape: [5] },
        // Divided by the four sampled tokens of the batch.
        advantages: { data: [0, 0, 0, 0.75, 0.75], dtype: 'float32', shape: [5] },
      },
    })),
    loss_fn: 'ppo',
    loss_fn_config: { clip_low_threshold: 0.8, clip_high_threshold: 1.28 },
  })
  const [step] = service.sentTo('optim_step')
  expect(step?.['adam_params']).toEqual({
    learning_rate: 0.5,
    beta1: 0.9,
    beta2: 0.95,
    eps: 1e-12,
    weight_decay: 0,
    grad_clip_norm: 1,
  })
  expect(service.requests[0]?.headers['x-api-key']).toBe(key)
})

it('sends masks as weights to a service that takes means, and names as Open-RL has them', async () => {
  const service = await startedService()
  const learner = await opened(service, { lossReduction: 'sequence_mean', dialect: 'open-rl' })
  await learner.update(batchOf(sequence), anyDrift)
  await learner.save(path.join(await temporaryFolder(), 'saved'))
  const [forward] = service.sentTo('forward_backward')
  expect(forward?.['forward_backward_input']).toMatchObject({
    data: [
      {
        loss_fn_inputs: {
          // The service divides by the weights, of which there are two.
          advantages: { data: [0, 0, 0, 3, 3] },
          weights: { data: [0, 0, 0, 1, 1] },
        },
      },
    ],
    loss_fn_config: { clip_range: 0.2 },
  })
  expect(service.sentTo('create_model')[0]).toMatchObject({
    lora_config: { rank: 16, lora_alpha: 32, lora_dropout: 0 },
  })
  expect(service.sentTo('save_weights')[0]).toMatchObject({ include_optimizer: true })
})

it('splits what is too large for one request, and steps once', async () => {
  const service = await startedService()
  const learner = await opened(service)
  const many = Array.from({ length: 1030 }, () => sequence)
  await learner.update(batchOf(...many), anyDrift)
  const sizes = service
    .sentTo('forward_backward')
    .map((body) => body.forward_backward_input?.data.length)
  expect(sizes).toEqual([1024, 6])
  expect(service.sentTo('optim_step')).toHaveLength(1)

  const long: Datum = {
    model_input: {
      chunks: [{ type: 'encoded_text', tokens: Array<number>(200_000).fill(123_456) }],
    },
    loss_fn_inputs: {},
  }
  const parts = [...inParts([long, long, long, long, long, long, long])]
  expect(parts.map(({ length }) => length)).toEqual([3, 3, 1])
  expect(JSON.stringify(parts[0]).length).toBeLessThan(5_000_000)
})

it('estimates the entropy from the tokens that it trains alone', async () => {
  const learner = await opened(await startedService())
  // What was sampled first was cut off, and is masked.
  const cut: BatchSequence = { ...sequence, logprobs: [0, -7, -8, 0, -1, -2] }
  expect(await learner.update(batchOf(cut), anyDrift)).toMatchObject({ tokens: 2, entropy: 1.5 })
})

it('refuses an update whose logprobs are not those of the service', async () => {
  const service = await startedService()
  const learner = await opened(service)
  await expect(learner.update(batchOf(sequence), defaultUpdate)).rejects.toMatchObject({
    code: 'training_drift',
    message: expect.stringContaining('No update was made. Usual causes: another chat template'),
  })
  expect(service.sentTo('optim_step')).toEqual([])
  expect(learner.version).toBe(0)
})

it.each(['forward_backward', 'optim_step'] as const)(
  'a %s whose answer was lost is done once: sent again under its number, or not at all',
  async (route) => {
    const service = await startedService()
    const learner = await opened(service)
    service.next(route, 'lost')
    await learner.update(batchOf(sequence), anyDrift)
    expect(new Set(service.sentTo(route).map((body) => body['seq_id'])).size).toBe(1)
    expect(service.sentTo(route)).toHaveLength(2)

    // Open-RL would do it twice.
    const other = await opened(service, { dialect: 'open-rl' })
    service.next(route, 'lost')
    await expect(other.update(batchOf(sequence), anyDrift)).rejects.toMatchObject({
      code: 'learner_error',
    })
    expect(service.sentTo(route)).toHaveLength(3)
    expect(other.version).toBe(0)
    // A service that says to wait has not started.
    service.next(route, { status: 503 })
    await other.update(batchOf(sequence), anyDrift)
    expect(other.version).toBe(1)
  },
)

it('a training whose update lost its answer saves nothing of it, and makes it once', async () => {
  const service = await startedService()
  const folder = await temporaryFolder()
  const first = await opened(service, { dialect: 'open-rl' })
  const failed = train({
    ...training(first, folder, 3),
    onStep: ({ step }) => void (step === 2 && service.next('optim_step', 'lost')),
  })
  await expect(failed).rejects.toMatchObject({ code: 'learner_error' })
  await first.close()
  const steps = service.sentTo('optim_step').length
  const result = await train(training(await opened(service, { dialect: 'open-rl' }), folder, 3))
  // The state of version 2 is loaded, and the third update is the only one that is made.
  expect(service.sentTo('load_weights')).toHaveLength(1)
  expect(service.sentTo('optim_step')).toHaveLength(steps + 1)
  expect(result.steps.map(({ version }) => version)).toEqual([1, 2, 3])
  expect(result.steps.map(({ batch }) => batch.stale)).toEqual([0, 0, 0])
})

it(
  'counts all that was used: after a kill, and when an older state is loaded',
  { tags: 'slow' },
  async () => {
    const service = await startedService()
    const folder = await temporaryFolder()
    const prompts = (): number =>
      service
        .sentTo('asample')
        .flatMap(({ prompt }) => prompt?.chunks ?? [])
        .reduce((sum, { tokens }) => sum + tokens.length, 0)
    const trained = (): number =>
      service
        .sentTo('forward_backward')
        .flatMap((body) => body.forward_backward_input?.data ?? [])
        // The service gets sequences without their last token.
        .reduce((sum, datum) => sum + (datum.model_input.chunks[0]?.tokens.length ?? 0) + 1, 0)
    const first = await opened(service)
    // What comes after the last checkpoint is used, too.
    await train({ ...training(first, folder, 3), checkpointEvery: 9 })
    await first.update(batchOf(sequence), anyDrift)
    const before = first.usage
    expect(before).toEqual({
      promptTokens: prompts(),
      sampledTokens: expect.any(Number),
      trainedTokens: trained(),
    })

    const second = await opened(service)
    const result = await train(training(second, folder, 4))
    expect(second.usage.promptTokens).toBe(prompts())
    expect(second.usage.trainedTokens).toBe(trained())
    expect(second.usage.sampledTokens).toBeGreaterThan(before.sampledTokens)
    const all = second.usage
    await second.load(path.join(folder, result.best?.folder ?? ''))
    expect(second.usage).toEqual(all)
  },
)

it('refuses to continue with another chat template or tokenizer', async () => {
  const service = await startedService()
  const tokenizer = path.join(await temporaryFolder(), 'tokenizer')
  cpSync(await tokenModelFolder(), tokenizer, { recursive: true })
  const folder = await temporaryFolder()
  const first = await opened(service, { tokenizer })
  await train(training(first, folder, 1))
  await first.close()
  // The same files continue.
  const same = await opened(service, { tokenizer })
  await train(training(same, folder, 2))
  await same.close()
  appendFileSync(path.join(tokenizer, 'tokenizer_config.json'), '\n')
  const other = await opened(service, { tokenizer })
  await expect(train(training(other, folder, 3))).rejects.toMatchObject({
    code: 'invalid_config',
    message: expect.stringMatching(
      /- files of the model \(--model, --tokenizer\): was "tokenizer of \d+ bytes, sha256 .*", is "/,
    ),
  })
})

it('counts what was used before anything was saved', async () => {
  const service = await startedService()
  const first = await opened(service)
  await first.update(batchOf(sequence, sequence), anyDrift)
  const saved = path.join(await temporaryFolder(), 'saved')
  await first.save(saved)
  const second = await opened(service)
  await second.load(saved)
  expect(second.usage).toEqual({ promptTokens: 0, sampledTokens: 0, trainedTokens: 12 })
})

it('is not lost when the service refuses prompts', async () => {
  const service = await startedService()
  const learner = await opened(service)
  const ask = (): Promise<Response> =>
    learner.policy.respond({
      rolloutId: 'r',
      sampleId: 's',
      headers: {},
      body: { messages: [{ role: 'user', content: doors[0]?.initialMessages[0]?.content }] },
      signal: new AbortController().signal,
    })
  for (let time = 0; time < 10; time += 1) {
    service.next('asample', { status: 400, body: { detail: 'no such token' } })
    expect((await ask()).status).toBe(400)
  }
  expect(learner.lost.aborted).toBe(false)
  expect((await ask()).status).toBe(200)
})

it('saves under another name when an answer was lost after the service had saved', async () => {
  const service = await startedService()
  service.next('save_weights', 'lost')
  service.next('save_weights_for_sampler', 'lost')
  const learner = await opened(service)
  await learner.update(batchOf(sequence), anyDrift)
  const folder = path.join(await temporaryFolder(), 'saved')
  await learner.save(folder)
  const saves = service.sentTo('save_weights').map((body) => body['path'])
  expect(new Set(saves).size).toBe(2)
  expect(readFileSync(path.join(folder, 'tinker.json'), 'utf8')).toContain(String(saves.at(-1)))
  await learner.load(folder)
  expect(learner.version).toBe(1)
})

it('sends heartbeats every ten seconds until it is closed', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const service = await startedService()
  const learner = await opened(service)
  const beats = () => service.sentTo('session_heartbeat').length
  // A lost heartbeat is not repeated, and disturbs nothing.
  service.next('session_heartbeat', { status: 503 })
  vi.advanceTimersByTime(10_000)
  await service.until(() => beats() === 1)
  vi.advanceTimersByTime(10_000)
  await service.until(() => beats() === 2)
  expect(service.sentTo('session_heartbeat')[0]).toMatchObject({ session_id: 'session-1' })
  await learner.close()
  vi.advanceTimersByTime(60_000)
  expect(beats()).toBe(2)
})

it('says what to do when the service holds as many models as it can', async () => {
  const service = await startedService()
  service.mostModels = 1
  const holder = await opened(service)
  await expect(opened(service)).rejects.toMatchObject({
    code: 'learner_error',
    message: expect.stringMatching(
      /no room for another model: .*Maximum number of LoRA adapters \(1\) reached\. End another training/,
    ),
  })
  await holder.close()
  expect((await opened(service)).version).toBe(0)
})

it(
  'unloads the model after an error at the start, and when a training is interrupted',
  { tags: 'slow' },
  async () => {
    const service = await startedService()
    const nowhere = opened(service, { tokenizer: undefined })
    await expect(nowhere).rejects.toMatchObject({
      code: 'invalid_config',
      message: expect.stringContaining('No folder with the tokenizer of token-model was given.'),
    })
    expect(service.sentTo('create_model')).toHaveLength(1)
    expect(service.models).toEqual([])

    // A folder that the service names is used.
    service.tokenizer = await tokenModelFolder()
    const learner = await opened(service, { tokenizer: undefined })
    const folder = await temporaryFolder()
    const interrupted = new AbortController()
    const trained = train({
      ...training(learner, folder, 9),
      checkpointEvery: 5,
      signal: interrupted.signal,
      onProgress: (run, { done }) => {
        if (run === 'step-0003' && done > 0) interrupted.abort(new Error('enough'))
      },
    })
    await expect(trained).rejects.toThrow('enough')
    // What was learned is saved, although no checkpoint was due.
    expect(existsSync(path.join(folder, 'checkpoints', 'step-0002', 'tinker.json'))).toBe(true)
    await learner.close()
    expect(service.models).toEqual([])
  },
)

it(
  'ends the training when the service no longer has the model, and continues with it later',
  { tags: 'slow' },
  async () => {
    const service = await startedService()
    const folder = await temporaryFolder()
    const learner = await opened(service)
    const trained = train({
      ...training(learner, folder, 3),
      onStep: ({ step }) => {
        if (step === 1) service.restart()
      },
    })
    await expect(trained).rejects.toMatchObject({ code: 'learner_error', status: 404 })
    await learner.close()

    const result = await train(training(await opened(service), folder, 3))
    expect(result.steps.map(({ step }) => step)).toEqual([1, 2, 3])
    // The rollouts that the loss ended were run again.
    for (const { rollouts } of result.steps) expect(rollouts.failed).toBe(0)
  },
)
