import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import type { UpdateFigures } from '@osmosis/eval/analysis'
import type { z } from 'zod'

import { clipBounds, lossScales, sampledIn, surrogateOf } from '../../batch/loss-scales.ts'
import type { TrainingBatch, UpdateSettings } from '../../learner.ts'
import type { SampledTokens } from '../token-policy.ts'
import {
  checkpointSchema,
  forwardSchema,
  infoSchema,
  modelSchema,
  parsed,
  sampledSchema,
  savedSchema,
  sessionSchema,
} from './tinker-answers.ts'
import type { TinkerClient } from './tinker-client.ts'
import {
  assertSmallDrift,
  driftOf,
  inMinibatches,
  inParts,
  sum,
  toDatum,
  type Drift,
} from './tinker-data.ts'
import type { TinkerLearnerOptions, TinkerUsage } from './tinker-options.ts'
import { UsageLedger } from './usage-ledger.ts'

type Json = Readonly<Record<string, unknown>>

const heartbeatMs = 10_000
/** How long unloading the model may take when a training ends. Milliseconds. */
const unloadLimitMs = 15_000
/** Samples that fail one after the other until the service counts as lost. */
const mostFailures = 8

/** A model under training on a Tinker service: its session, its weights and what samples them. */
export class TinkerModel {
  version = 0
  readonly #client: TinkerClient
  readonly #options: TinkerLearnerOptions
  readonly #lost = new AbortController()
  readonly #usage = new UsageLedger()
  #session = ''
  #models = 0
  #model: string | undefined
  #sampler: Promise<Json> | undefined
  /** One counter for all requests of a model that change it; they are sent in its order. */
  #sequence = 0
  #samplers = 0
  #samples = 0
  #saves = 0
  #failures = 0
  #heartbeat: NodeJS.Timeout | undefined

  constructor(client: TinkerClient, options: TinkerLearnerOptions) {
    this.#client = client
    this.#options = options
  }

  get usage(): TinkerUsage {
    return this.#usage.total
  }

  /** Aborted with the reason when samples can no longer be had. */
  get lost(): AbortSignal {
    return this.#lost.signal
  }

  /** Opens a session and makes a model. */
  async open(): Promise<void> {
    const { signal } = this.#options
    const session = { tags: ['osmosis'], sdk_version: '0.25.0', user_metadata: {} }
    const body = { ...session, type: 'create_session' }
    const opened = await this.#client.post('create_session', body, { signal })
    this.#session = parsed('create_session', sessionSchema, opened).session_id
    const beat = (): void => {
      const alive = { session_id: this.#session, type: 'session_heartbeat' }
      this.#client.post('session_heartbeat', alive, { retries: 0 }).catch(() => {})
    }
    this.#heartbeat = setInterval(beat, heartbeatMs).unref()
    await this.#create(signal)
  }

  /** What the service calls the tokenizer of the model; undefined where it does not say. */
  async tokenizer(): Promise<string | undefined> {
    const body = { model_id: this.#model, type: 'get_info' }
    const answer = await this.#client.post('get_info', body, { retries: 2 }).catch(() => ({}))
    return infoSchema.safeParse(answer).data?.model_data?.tokenizer_id ?? undefined
  }

  async sample(
    prompt: readonly number[],
    settings: {
      readonly maxTokens: number
      readonly seed: number | undefined
      readonly stop: readonly number[]
    },
    signal: AbortSignal,
  ): Promise<SampledTokens> {
    try {
      const sampler = await (this.#sampler ?? this.#publish())
      const model = `policy-${this.version}`
      this.#samples += 1
      const answer = await this.#client.call(
        'asample',
        {
          ...sampler,
          seq_id: this.#samples,
          num_samples: 1,
          prompt: { chunks: [{ type: 'encoded_text', tokens: prompt }] },
          sampling_params: {
            max_tokens: settings.maxTokens,
            temperature: 1,
            top_p: 1,
            top_k: -1,
            stop: settings.stop,
            ...(settings.seed === undefined ? {} : { seed: settings.seed }),
          },
          type: 'sample',
        },
        { signal },
      )
      const { sequences } = parsed('asample', sampledSchema, answer)
      const { tokens: ids, logprobs } = sequences[0] ?? { tokens: [], logprobs: [] }
      this.#failures = 0
      this.#usage.add({ promptTokens: prompt.length, sampledTokens: ids.length })
      return { ids, logprobs, model }
    } catch (error) {
      // The service does not notice that no caller waits any more.
      if (signal.aborted) this.#usage.add({ promptTokens: prompt.length })
      signal.throwIfAborted()
      throw this.#failedSample(error)
    }
  }

  async update(batch: TrainingBatch, settings: UpdateSettings): Promise<UpdateFigures> {
    if (settings.kl > 0) {
      throw new OsmosisError(
        'invalid_config',
        'A Tinker service cannot keep the policy close to its start: leave kl out.',
      )
    }
    const began = performance.now()
    let first: Drift | undefined
    for (let epoch = 0; epoch < settings.epochs; epoch += 1) {
      for (const part of inMinibatches(batch, settings.minibatches)) {
        const outputs = await this.#forwardBackward(part, settings)
        if (first === undefined && batch.loss === 'policy_gradient') {
          first = driftOf(part.sequences, outputs)
          assertSmallDrift(first, settings.maxDrift)
        }
        await this.#call('optim_step', {
          adam_params: {
            learning_rate: settings.learningRate,
            beta1: 0.9,
            beta2: 0.95,
            // So small that the scale of the loss does not matter.
            eps: 1e-12,
            weight_decay: settings.weightDecay,
            grad_clip_norm: settings.maxGradNorm,
          },
        })
      }
    }
    this.version += 1
    await this.#publish()
    const tokens = sum(batch.sequences, ({ mask }) => sampledIn(mask))
    const surprise = sum(batch.sequences, ({ logprobs, mask }) =>
      sum(mask, (one, at) => -one * (logprobs[at] ?? 0)),
    )
    return {
      loss: null,
      driftMean: first?.mean ?? null,
      driftMax: first?.max ?? null,
      // The mean of −log p over the sampled tokens that are trained estimates it.
      entropy: surprise / Math.max(1, tokens),
      clipFraction: null,
      kl: null,
      gradNorm: null,
      tokens,
      sequences: batch.sequences.length,
      seconds: (performance.now() - began) / 1000,
    }
  }

  /** Saves weights and optimizer on the service, and a file that says where they are. */
  async save(folder: string): Promise<void> {
    this.#usage.keepBeside(folder)
    // Read by Open-RL alone, which otherwise leaves the optimizer out.
    const more = this.#options.dialect === 'open-rl' ? { include_optimizer: true } : {}
    const name = this.#newName()
    const saved = await this.#callNamed('save_weights', name, (own) => ({ path: own, ...more }))
    await this.#describe(folder, saved.path ?? `tinker://${this.#model}/weights/${saved.name}`)
  }

  /** Saves weights that can be sampled when the model is unloaded, and a file that says where they are. */
  async export(folder: string): Promise<void> {
    const name = this.#newName()
    const route = 'save_weights_for_sampler'
    const saved = await this.#callNamed(route, name, (own) => ({ path: own }))
    const at = saved.path ?? `tinker://${this.#model}/sampler_weights/${saved.name}`
    await this.#describe(folder, at)
  }

  async load(folder: string): Promise<void> {
    this.#usage.keepBeside(folder)
    const text = await readFile(path.join(folder, 'tinker.json'), 'utf8')
    const { path: at, version } = checkpointSchema.parse(JSON.parse(text))
    // Weights are loaded by the first request of a model.
    if (this.#model === undefined || this.#sequence > 0) {
      await this.#unload()
      await this.#create()
    }
    await this.#call('load_weights', { path: at, optimizer: true })
    this.version = version
  }

  async close(): Promise<void> {
    clearInterval(this.#heartbeat)
    await this.#unload()
    await this.#client.close()
  }

  async #forwardBackward(batch: TrainingBatch, settings: UpdateSettings): Promise<number[][]> {
    const { dialect, lossReduction = 'sum' } = this.#options
    const scales = lossScales(batch, settings)
    const data = batch.sequences.map((sequence, at) =>
      toDatum(sequence, batch.loss, scales[at] ?? 0, lossReduction),
    )
    this.#usage.add({ trainedTokens: sum(batch.sequences, ({ ids }) => ids.length) })
    const isGradient = batch.loss === 'policy_gradient'
    const [low, high] = clipBounds(settings)
    const clip =
      dialect === 'open-rl'
        ? { clip_range: settings.clipLow }
        : { clip_low_threshold: low, clip_high_threshold: high }
    const outputs: number[][] = []
    // Several requests add up until the optimizer's step.
    for (const part of inParts(data)) {
      const answer = await this.#call('forward_backward', {
        forward_backward_input: {
          data: part,
          loss_fn: isGradient ? surrogateOf(settings.loss) : 'cross_entropy',
          ...(isGradient ? { loss_fn_config: clip } : {}),
        },
      })
      const { loss_fn_outputs: found } = parsed('forward_backward', forwardSchema, answer)
      outputs.push(...found.map(({ logprobs }) => logprobs.data))
    }
    return outputs
  }

  /** Makes the current weights the ones that are sampled. */
  #publish(): Promise<Json> {
    const published = this.#saveForSampler()
    published.catch(() => {
      if (this.#sampler === published) this.#sampler = undefined
    })
    this.#sampler = published
    return published
  }

  async #saveForSampler(): Promise<Json> {
    const number = (): string => String((this.#samplers += 1))
    const saved = await this.#callNamed('save_weights_for_sampler', number, (id) => ({
      sampling_session_seq_id: Number(id),
    }))
    const { sampling_session_id: session, path: at } = saved
    return session ? { sampling_session_id: session } : { model_path: at }
  }

  /**
   * Sends a save, whose name must be new. Where an answer was lost, the same request sent again may find its name taken by
   * itself (409): a second name is used then.
   */
  async #callNamed(
    route: string,
    newName: () => string,
    body: (name: string) => Json,
  ): Promise<z.infer<typeof savedSchema> & { readonly name: string }> {
    const send = async () => {
      const name = newName()
      return { ...parsed(route, savedSchema, await this.#call(route, body(name))), name }
    }
    try {
      return await send()
    } catch (error) {
      if (!isOsmosisError(error) || error.status !== 409) throw error
      return send()
    }
  }

  #newName(): () => string {
    const start = `osmosis-${this.version}-${Date.now().toString(36)}`
    return () => `${start}-${(this.#saves += 1)}`
  }

  async #describe(folder: string, at: string): Promise<void> {
    const unfinished = `${folder}.tmp`
    await mkdir(unfinished, { recursive: true })
    const found = { path: at, version: this.version }
    const text = `${JSON.stringify(found, undefined, 2)}\n`
    await writeFile(path.join(unfinished, 'tinker.json'), text)
    await rm(folder, { recursive: true, force: true })
    await rename(unfinished, folder)
  }

  async #create(signal?: AbortSignal): Promise<void> {
    const { baseModel, loraRank: rank = 16, seed = 0, dialect } = this.#options
    const body = {
      session_id: this.#session,
      model_seq_id: this.#models,
      base_model: baseModel,
      lora_config: {
        rank,
        seed,
        train_attn: true,
        train_mlp: true,
        train_unembed: false,
        // With Open-RL's dropout, trained logprobs would not be the sampled ones.
        ...(dialect === 'open-rl' ? { lora_alpha: 2 * rank, lora_dropout: 0 } : {}),
      },
      type: 'create_model',
    }
    try {
      const answer = await this.#client.call('create_model', body, { signal })
      this.#model = parsed('create_model', modelSchema, answer).model_id
    } catch (error) {
      if (!/maximum number of/i.test(errorMessage(error))) throw error
      throw new OsmosisError(
        'learner_error',
        `The Tinker service has no room for another model: ${errorMessage(error)}. End another training on it, or wait: the model of a training that was killed is unloaded some minutes after its last heartbeat.`,
        { cause: error },
      )
    }
    this.#models += 1
    this.#sequence = 0
  }

  /** Services hold few models: one that is not unloaded stays until its session has had no heartbeat for minutes. */
  async #unload(): Promise<void> {
    const model = this.#model
    this.#model = undefined
    this.#sampler = undefined
    if (model === undefined) return
    try {
      const signal = AbortSignal.timeout(unloadLimitMs)
      await this.#client.call('unload_model', { model_id: model, type: 'unload_model' }, { signal })
    } catch {
      // The service has no such model or route, or does not answer: there is nothing left to free.
    }
  }

  async #call(route: string, body: Json): Promise<Json> {
    this.#lost.signal.throwIfAborted()
    this.#sequence += 1
    const own = { model_id: this.#model, seq_id: this.#sequence }
    // Open-RL trains again when a request whose answer was lost is sent again; others know it by its number.
    const trains = route === 'forward_backward' || route === 'optim_step'
    const isRepeatable = !trains || this.#options.dialect !== 'open-rl'
    return this.#client.call(route, { ...own, ...body, type: route }, { isRepeatable })
  }

  /**
   * The error of a sample, for the rollout. The model calls of rollouts are tried again, so a service that fails for all of
   * them, or says that it will, is reported as lost.
   */
  #failedSample(error: unknown): unknown {
    const { code, status } = isOsmosisError(error) ? error : { code: undefined, status: undefined }
    // It says something about the prompt, and nothing about the service.
    if (status === 400 || status === 413 || status === 422) {
      return new OsmosisError('invalid_request', errorMessage(error), { cause: error, status })
    }
    this.#failures += 1
    const canPass =
      code === 'learner_error' && status !== undefined && status !== 402 && status !== 404
    if (!canPass || this.#failures >= mostFailures) this.#lost.abort(error)
    return error
  }
}
