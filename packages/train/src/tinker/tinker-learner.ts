import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'

import { z } from 'zod'

import type { Learner, TrainingBatch, UpdateFigures, UpdateSettings } from '../learner.ts'
import { ChatTemplate } from './chat-template.ts'
import { answerReader } from './read-answer.ts'
import { TinkerClient, type TinkerAddress } from './tinker-client.ts'
import {
  assertSmallDrift,
  driftOf,
  inParts,
  sampledIn,
  sum,
  toDatum,
  type Drift,
} from './tinker-data.ts'
import { tokenPolicy, type SampledTokens } from './token-policy.ts'

/** How a policy is trained on a service that speaks the Tinker API. */
export interface TinkerLearnerOptions extends TinkerAddress {
  /** The base model, as the service names it. */
  readonly baseModel: string
  /** Folder with the tokenizer and chat template of that model. */
  readonly tokenizer: string
  /** Rank of the LoRA adapters. Default: 16. */
  readonly loraRank?: number | undefined
  readonly seed?: number | undefined
  /** Tokens of a conversation. Default: 8192. */
  readonly maxLength?: number | undefined
  /**
   * Whether the service adds up the losses of all tokens (hosted, Open-RL, SkyRL's torch backend), or takes the mean of each
   * sequence and then of all (SkyRL's jax backend). Default: `sum`.
   */
  readonly lossReduction?: 'sum' | 'sequence_mean' | undefined
  /**
   * How the service wants the limits of clipping: the smallest and largest ratio (hosted, SkyRL), or the distance from 1
   * (Open-RL). Default: `bounds`.
   */
  readonly clipForm?: 'bounds' | 'distance' | undefined
}

/** What a training used of the service. */
export interface TinkerUsage {
  readonly promptTokens: number
  readonly sampledTokens: number
  /** Tokens of sequences in updates, those of prompts included. */
  readonly trainedTokens: number
}

/** A learner on a Tinker service. */
export interface TinkerLearner extends Learner {
  readonly usage: TinkerUsage
}

const sampledSchema = z.object({
  sequences: z.array(z.object({ tokens: z.array(z.int()), logprobs: z.array(z.number()) })).min(1),
})
const forwardSchema = z.object({
  loss_fn_outputs: z.array(z.object({ logprobs: z.object({ data: z.array(z.number()) }) })),
  metrics: z.record(z.string(), z.unknown()).nullish(),
})
const savedSchema = z.object({
  sampling_session_id: z.string().nullish(),
  path: z.string().nullish(),
})
const checkpointSchema = z.object({ path: z.string(), version: z.int() })

const heartbeatMs = 10_000

/**
 * Opens a learner on a Tinker service. The model is made there with the first call, and unloaded by `close`: services hold
 * a fixed number of models.
 *
 * @throws OsmosisError with code `invalid_config`, `unauthorized` or `learner_error`
 */
export async function openTinkerLearner(options: TinkerLearnerOptions): Promise<TinkerLearner> {
  const template = new ChatTemplate(options.tokenizer)
  const readAnswer = answerReader(template.source)
  const service = new TinkerModel(new TinkerClient(options), options, template)
  await service.openSession()
  const policy = tokenPolicy({
    name: options.baseModel,
    template,
    readAnswer,
    maxLength: options.maxLength ?? 8192,
    sample: (prompt, settings) => service.sample(prompt, settings),
  })
  return {
    name: options.baseModel,
    policy,
    get version() {
      return service.version
    },
    get usage() {
      return service.usage
    },
    update: (batch, settings) => service.update(batch, settings),
    save: (folder) => service.save(folder),
    load: (folder) => service.load(folder),
    export: (folder) => service.save(folder),
    close: () => service.close(),
  }
}

class TinkerModel {
  version = 0
  readonly #client: TinkerClient
  readonly #options: TinkerLearnerOptions
  readonly #template: ChatTemplate
  readonly #usage = { promptTokens: 0, sampledTokens: 0, trainedTokens: 0 }
  #session = ''
  #models = 0
  #model: Promise<string> | undefined
  #sampler: Promise<Readonly<Record<string, unknown>>> | undefined
  /** One counter for all requests of a model that change it; they are sent in its order. */
  #sequence = 0
  #samplers = 0
  #samples = 0
  #heartbeat: NodeJS.Timeout | undefined

  constructor(client: TinkerClient, options: TinkerLearnerOptions, template: ChatTemplate) {
    this.#client = client
    this.#options = options
    this.#template = template
  }

  get usage(): TinkerUsage {
    return { ...this.#usage }
  }

  async openSession(): Promise<void> {
    const body = { tags: ['osmosis'], sdk_version: '0.25.0', user_metadata: {} }
    const { session_id: id } = await this.#client.post('create_session', {
      ...body,
      type: 'create_session',
    })
    this.#session = String(id)
    const beat = (): void => {
      const alive = { session_id: this.#session, type: 'session_heartbeat' }
      this.#client.post('session_heartbeat', alive).catch(() => {})
    }
    this.#heartbeat = setInterval(beat, heartbeatMs).unref()
  }

  async sample(
    prompt: readonly number[],
    settings: { readonly maxTokens: number; readonly seed: number | undefined },
  ): Promise<SampledTokens> {
    const sampler = await (this.#sampler ?? this.#publish())
    const model = `policy-${this.version}`
    this.#samples += 1
    const answer = await this.#client.call('asample', {
      ...sampler,
      seq_id: this.#samples,
      num_samples: 1,
      prompt: { chunks: [{ type: 'encoded_text', tokens: prompt }] },
      sampling_params: {
        max_tokens: settings.maxTokens,
        temperature: 1,
        top_p: 1,
        top_k: -1,
        stop: [...this.#template.endIds],
        ...(settings.seed === undefined ? {} : { seed: settings.seed }),
      },
      type: 'sample',
    })
    const { tokens: ids, logprobs } = sampledSchema.parse(answer).sequences[0] ?? {
      tokens: [],
      logprobs: [],
    }
    this.#usage.promptTokens += prompt.length
    this.#usage.sampledTokens += ids.length
    return { ids, logprobs, model }
  }

  async update(batch: TrainingBatch, settings: UpdateSettings): Promise<UpdateFigures> {
    const began = performance.now()
    const tokens = sum(batch.sequences, ({ mask }) => sampledIn(mask))
    let first: Drift | undefined
    for (let epoch = 0; epoch < settings.epochs; epoch += 1) {
      const outputs = await this.#forwardBackward(batch, settings, tokens)
      if (first === undefined && batch.loss === 'policy_gradient') {
        first = driftOf(batch.sequences, outputs)
        assertSmallDrift(first, settings.maxDrift)
      }
      await this.#call('optim_step', {
        adam_params: {
          learning_rate: settings.learningRate,
          beta1: 0.9,
          beta2: 0.95,
          // So small that the scale of the loss does not matter.
          eps: 1e-12,
          weight_decay: 0,
        },
        grad_clip_norm: settings.maxGradNorm,
      })
    }
    this.version += 1
    await this.#publish()
    return {
      loss: null,
      driftMean: first?.mean ?? null,
      driftMax: first?.max ?? null,
      entropy: null,
      clipFraction: null,
      kl: null,
      gradNorm: null,
      tokens,
      sequences: batch.sequences.length,
      seconds: (performance.now() - began) / 1000,
    }
  }

  async save(folder: string): Promise<void> {
    const name = `osmosis-${this.version}-${Date.now().toString(36)}`
    const saved = savedSchema.parse(await this.#call('save_weights', { path: name }))
    const model = await this.#openModel()
    const at = saved.path ?? `tinker://${model}/weights/${name}`
    const unfinished = `${folder}.tmp`
    await mkdir(unfinished, { recursive: true })
    const text = JSON.stringify({ path: at, version: this.version }, undefined, 2)
    await writeFile(path.join(unfinished, 'tinker.json'), `${text}\n`)
    await rm(folder, { recursive: true, force: true })
    await rename(unfinished, folder)
  }

  async load(folder: string): Promise<void> {
    const text = await readFile(path.join(folder, 'tinker.json'), 'utf8')
    const { path: at, version } = checkpointSchema.parse(JSON.parse(text))
    // Weights are loaded by the first request of a model.
    await this.#unload()
    await this.#call('load_weights', { path: at, optimizer: true })
    this.version = version
  }

  async close(): Promise<void> {
    clearInterval(this.#heartbeat)
    await this.#unload()
    await this.#client.close()
  }

  async #forwardBackward(
    batch: TrainingBatch,
    settings: UpdateSettings,
    tokens: number,
  ): Promise<number[][]> {
    const { clipForm = 'bounds', lossReduction = 'sum' } = this.#options
    const data = batch.sequences.map((sequence) =>
      toDatum(sequence, { loss: batch.loss, tokens, lossReduction }),
    )
    this.#usage.trainedTokens += sum(batch.sequences, ({ ids }) => ids.length)
    const isGradient = batch.loss === 'policy_gradient'
    const clip =
      clipForm === 'distance'
        ? { clip_range: settings.clipLow }
        : {
            clip_low_threshold: 1 - settings.clipLow,
            clip_high_threshold: 1 + settings.clipHigh,
          }
    const outputs: number[][] = []
    // Several requests add up until the optimizer's step.
    for (const part of inParts(data)) {
      const answer = await this.#call('forward_backward', {
        forward_backward_input: {
          data: part,
          loss_fn: isGradient ? 'ppo' : 'cross_entropy',
          ...(isGradient ? { loss_fn_config: clip } : {}),
        },
      })
      const { loss_fn_outputs: found } = forwardSchema.parse(answer)
      outputs.push(...found.map(({ logprobs }) => logprobs.data))
    }
    return outputs
  }

  /** Makes the current weights the ones that are sampled. */
  #publish(): Promise<Readonly<Record<string, unknown>>> {
    const published = this.#saveForSampler()
    published.catch(() => {
      if (this.#sampler === published) this.#sampler = undefined
    })
    this.#sampler = published
    return published
  }

  async #saveForSampler(): Promise<Readonly<Record<string, unknown>>> {
    this.#samplers += 1
    const answer = await this.#call('save_weights_for_sampler', {
      sampling_session_seq_id: this.#samplers,
    })
    const { sampling_session_id: session, path: at } = savedSchema.parse(answer)
    return session ? { sampling_session_id: session } : { model_path: at }
  }

  #openModel(): Promise<string> {
    return (this.#model ??= this.#createModel())
  }

  async #createModel(): Promise<string> {
    const { baseModel, loraRank: rank = 16, seed = 0 } = this.#options
    const answer = await this.#client.call('create_model', {
      session_id: this.#session,
      model_seq_id: this.#models,
      base_model: baseModel,
      lora_config: {
        rank,
        seed,
        train_attn: true,
        train_mlp: true,
        train_unembed: false,
        // Read by Open-RL alone, whose dropout would make sampled and trained logprobs differ.
        lora_alpha: 2 * rank,
        lora_dropout: 0,
      },
      type: 'create_model',
    })
    this.#models += 1
    this.#sequence = 0
    return String(answer['model_id'])
  }

  /** Services hold few models: one that is not unloaded stays until its session has had no heartbeat for minutes. */
  async #unload(): Promise<void> {
    const model = this.#model
    this.#model = undefined
    this.#sampler = undefined
    if (model === undefined) return
    try {
      await this.#client.call('unload_model', { model_id: await model, type: 'unload_model' })
    } catch {
      // It is gone already, or the service is; nothing is left to free.
    }
  }

  async #call(
    route: string,
    body: Readonly<Record<string, unknown>>,
  ): Promise<Readonly<Record<string, unknown>>> {
    const model = await this.#openModel()
    this.#sequence += 1
    return this.#client.call(route, {
      model_id: model,
      seq_id: this.#sequence,
      ...body,
      type: route,
    })
  }
}
