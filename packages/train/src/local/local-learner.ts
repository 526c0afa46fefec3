import { stat } from 'node:fs/promises'

import { upstreamPolicy, type PolicyModel } from '@osmosis/controller'
import { isOsmosisError, OsmosisError, type OsmosisErrorCode } from '@osmosis/core'
import { bearer, createTransport, parseJson } from '@osmosis/core/http'
import type { UpdateFigures } from '@osmosis/eval/analysis'
import { boundedText } from '@osmosis/protocol/http'
import { z } from 'zod'

import { digestFolder } from '../files/folder-digest.ts'
import { lossScales, surrogateOf } from '../batch/loss-scales.ts'
import type { Learner, TrainingBatch, UpdateSettings } from '../learner.ts'
import { startLearner, type LearnerFacts, type LearnerProcessOptions } from './learner-process.ts'

/** A learner on this machine, in a Python process of its own. */
export interface LocalLearner extends Learner {
  readonly facts: LearnerFacts
  /** Aborted when its process ends, with the reason. */
  readonly died: AbortSignal
}

const updatedSchema = z.object({
  version: z.number(),
  loss: z.number(),
  drift_mean: z.number().nullable(),
  drift_max: z.number().nullable(),
  entropy: z.number().nullable(),
  clip_fraction: z.number().nullable(),
  kl: z.number().nullable(),
  grad_norm: z.number().nullable(),
  tokens: z.number(),
  sequences: z.number(),
  seconds: z.number(),
})
const loadedSchema = z.object({ version: z.number() })
const errorSchema = z.object({ error: z.object({ message: z.string(), code: z.string() }) })

/** Bytes. Answers have figures alone. */
const longestAnswer = 1024 * 1024

/**
 * Opens the bundled learner (`learner/learner.py`). The caller closes it.
 *
 * @throws OsmosisError with code `learner_error`, as `startLearner` does
 */
export async function openLocalLearner(options: LearnerProcessOptions): Promise<LocalLearner> {
  const files = await modelFilesOf(options.model)
  const server = await startLearner(options)
  const { url, apiKey } = server
  const upstream = upstreamPolicy({ baseUrl: `${url}/v1`, apiKey, model: 'policy' })
  const policy: PolicyModel = {
    name: upstream.name,
    respond(call) {
      // Two rollouts that say the same have other tokens; the learner continues those of the same conversation.
      const conversation = JSON.stringify([call.rolloutId, call.sampleId])
      return upstream.respond({ ...call, body: { ...call.body, conversation } })
    },
  }
  const transport = createTransport({
    name: 'learner',
    codes: { unreachable: 'learner_error', refused: 'learner_error' },
  })
  const { died } = server
  const headers = { 'content-type': 'application/json', ...bearer(apiKey) }
  async function send(path: string, body: unknown): Promise<unknown> {
    try {
      // `send` takes an answer of any status, and has no time limit: an update takes as long as it takes.
      const sent = { headers, body: JSON.stringify(body), signal: died }
      const answer = await transport.send(`${url}${path}`, sent)
      const text = (await boundedText(answer.body, longestAnswer)) ?? ''
      if (answer.status === 200) return JSON.parse(text)
      throw refusal(answer.status, text)
    } catch (error) {
      if (died.aborted) throw died.reason
      throw isOsmosisError(error) ? error : new OsmosisError('learner_error', String(error))
    }
  }
  let version = 0
  return {
    name: server.facts.model,
    modelFiles: files ?? server.facts.revision ?? undefined,
    facts: server.facts,
    died,
    policy,
    get version() {
      return version
    },
    async update(batch, settings) {
      const updated = updatedSchema.parse(await send('/update', toUpdateBody(batch, settings)))
      version = updated.version
      return toFigures(updated)
    },
    async save(folder) {
      await send('/save', { folder })
    },
    async load(folder) {
      version = loadedSchema.parse(await send('/load', { folder })).version
    },
    async export(folder) {
      await send('/export', { folder, merged: options.exportsMerged === true })
    },
    async close() {
      await upstream.close()
      await transport.close()
      await server.close()
    },
  }
}

/** Size and digest of the files of a folder; undefined for the name of a model. */
async function modelFilesOf(model: string): Promise<string | undefined> {
  const isFolder = await stat(model).then(
    (found) => found.isDirectory(),
    () => false,
  )
  if (!isFolder) return undefined
  const { bytes, sha256 } = await digestFolder(model)
  return `${bytes} bytes, sha256 ${sha256}`
}

function toUpdateBody(batch: TrainingBatch, settings: UpdateSettings): unknown {
  const scales = lossScales(batch, settings)
  return {
    loss: batch.loss,
    surrogate: surrogateOf(settings.loss),
    sequences: batch.sequences.map(({ ids, mask, logprobs, advantages, temperature }, at) => ({
      ids,
      mask,
      logprobs,
      advantages,
      temperature,
      scale: scales[at],
    })),
    learning_rate: settings.learningRate,
    epochs: settings.epochs,
    minibatches: settings.minibatches,
    clip_low: settings.clipLow,
    clip_high: settings.clipHigh,
    kl: settings.kl,
    max_grad_norm: settings.maxGradNorm,
    weight_decay: settings.weightDecay,
    importance_cap: settings.importanceCap,
    max_drift: settings.maxDrift,
    seed: settings.seed,
  }
}

function toFigures(updated: z.infer<typeof updatedSchema>): UpdateFigures {
  const { loss, entropy, kl, tokens, sequences, seconds } = updated
  return {
    loss,
    driftMean: updated.drift_mean,
    driftMax: updated.drift_max,
    entropy,
    clipFraction: updated.clip_fraction,
    kl,
    gradNorm: updated.grad_norm,
    tokens,
    sequences,
    seconds,
  }
}

function refusal(status: number, text: string): OsmosisError {
  const parsed = errorSchema.safeParse(parseJson(text))
  if (!parsed.success) {
    return new OsmosisError(
      'learner_error',
      `The learner answered ${status}: ${text.slice(0, 500)}`,
    )
  }
  const { message, code } = parsed.data.error
  const codes: Readonly<Record<string, OsmosisErrorCode>> = {
    drift: 'training_drift',
    disk_full: 'storage_error',
  }
  return new OsmosisError(codes[code] ?? 'learner_error', message, { status })
}
