import { createHash } from 'node:crypto'
import { stat } from 'node:fs/promises'
import path from 'node:path'

import { upstreamPolicy, type PolicyModel } from '@osmosis/controller'
import { errorMessage, isOsmosisError, OsmosisError, type OsmosisErrorCode } from '@osmosis/core'
import { bearer, createTransport, parseJson } from '@osmosis/core/http'
import { readTrainingJournal } from '@osmosis/eval'
import { trainingSeries, type TrainingRecord, type UpdateFigures } from '@osmosis/eval/analysis'
import { boundedText } from '@osmosis/protocol/http'
import { z } from 'zod'

import { lossScales, surrogateOf } from '../batch/loss-scales.ts'
import { digestFolder } from '../files/folder-digest.ts'
import type { BatchSequence, Learner, TrainingBatch, UpdateSettings } from '../learner.ts'
import type { LearnerIdentity } from '../loop/same-training.ts'
import {
  startLearner,
  type LearnerFacts,
  type LearnerProcess,
  type LearnerProcessOptions,
} from './learner-process.ts'

/** A learner on this machine, in a Python process of its own. */
export interface LocalLearner extends Learner {
  readonly facts: LearnerFacts
  /** Aborted when its process ends, with the reason. */
  readonly died: AbortSignal
  /**
   * Gives the loggers what the journal of a training has and they do not, without waiting for them; at the end, waits 30 seconds
   * at most. Resolves with what is wrong with them, once each.
   *
   * @param folder - of the training
   */
  log(folder: string, options?: { readonly ended?: boolean }): Promise<readonly string[]>
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
const loggedSchema = z.object({ warnings: z.array(z.string()) })
const loadedSchema = z.object({ version: z.number() })
const errorSchema = z.object({ error: z.object({ message: z.string(), code: z.string() }) })

/** Bytes. Answers have figures alone. */
const longestAnswer = 1024 * 1024

/** What of a local learner must not change during a training. @param facts - of {@link estimateLearner} or of the learner itself */
export async function localLearnerIdentity(
  { model, loraRank = 16, loraTargets = 'all-linear' }: LearnerProcessOptions,
  facts: Pick<LearnerFacts, 'model' | 'revision'>,
): Promise<LearnerIdentity> {
  return {
    name: facts.model,
    modelFiles: (await modelFilesOf(model)) ?? facts.revision ?? undefined,
    trained: {
      '--lora-rank': loraRank,
      ...(loraRank > 0 ? { 'training.lora_targets': loraTargets } : {}),
    },
  }
}

/**
 * Opens the bundled learner (`learner/learner.py`). The caller closes it.
 *
 * @param known - its identity, where that was found out before: the files of a large model take a while to read
 * @throws OsmosisError with code `learner_error`, as `startLearner` does
 */
export async function openLocalLearner(
  options: LearnerProcessOptions,
  known?: LearnerIdentity,
): Promise<LocalLearner> {
  const server = await startLearner(options)
  const identity = known ?? (await identityOf(options, server))
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
  async function send(route: string, body: unknown): Promise<unknown> {
    try {
      // `send` takes an answer of any status, and has no time limit: an update takes as long as it takes.
      const sent = { headers, body: JSON.stringify(body), signal: died }
      const answer = await transport.send(`${url}${route}`, sent)
      const text = (await boundedText(answer.body, longestAnswer)) ?? ''
      if (answer.status === 200) return JSON.parse(text)
      throw refusal(answer.status, text)
    } catch (error) {
      if (died.aborted) throw died.reason
      throw isOsmosisError(error) ? error : new OsmosisError('learner_error', String(error))
    }
  }
  let [version, logged] = [0, 0]
  return {
    ...identity,
    facts: server.facts,
    died,
    policy,
    get version() {
      return version
    },
    async update(batch, settings) {
      const updated = updatedSchema.parse(
        await send('/update', toUpdateBody(batch, settings, version)),
      )
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
    async log(folder, { ended = false } = {}) {
      if (options.log === undefined) return []
      try {
        const journal = readTrainingJournal(folder)
        const all = journal.flatMap(toLogged).map((record, at) => ({ at, ...record }))
        const records = all.slice(logged)
        logged = all.length
        const training = { ...toLoggedTraining(journal), folder, name: path.basename(folder) }
        return loggedSchema.parse(await send('/log', { training, records, ended })).warnings
      } catch (error) {
        return [errorMessage(error)]
      }
    },
    async close() {
      await upstream.close()
      await transport.close()
      await server.close()
    },
  }
}

/** Closes the learner where its identity cannot be read, because no caller could. */
async function identityOf(
  options: LearnerProcessOptions,
  server: LearnerProcess,
): Promise<LearnerIdentity> {
  try {
    return await localLearnerIdentity(options, server.facts)
  } catch (error) {
    await server.close()
    throw error
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

/** What loggers get about a training. Its first start is the same in all processes, and so is its id. */
function toLoggedTraining(journal: readonly TrainingRecord[]): object {
  const first = journal.find((record) => record.kind === 'start')
  const { settings, kind: _, ...config } = first ?? { kind: '', rollout: '' }
  const id = createHash('sha256').update(JSON.stringify(config)).digest('hex').slice(0, 16)
  return { id, project: config.rollout, config: { ...config, ...settings } }
}

/** The figures of a record, by the names that the page of the training has. */
function toLogged(record: TrainingRecord): object[] {
  if (record.kind !== 'step' && record.kind !== 'evaluation') return []
  const { update = null, settings } = record.kind === 'step' ? record : {}
  const figures: [string, unknown][] = [
    ...trainingSeries([record]).map(({ label, points }): [string, unknown] => [
      label,
      points[0]?.value,
    ]),
    ['Loss', update?.loss],
    ['KL', update?.kl],
    ['Gradient norm', update?.gradNorm],
    ['Learning rate', settings?.update['learningRate']],
  ]
  const values = Object.fromEntries(figures.filter(([, value]) => typeof value === 'number'))
  return [{ step: record.step, time: Date.parse(record.endedAt) / 1000, values }]
}

function toUpdateBody(batch: TrainingBatch, settings: UpdateSettings, version: number): unknown {
  const scales = lossScales(batch, settings)
  return {
    loss: batch.loss,
    surrogate: surrogateOf(settings.loss),
    sequences: batch.sequences.map(
      ({ ids, mask, logprobs, advantages, temperature, ...sequence }, at) => ({
        ids,
        mask,
        logprobs,
        advantages,
        temperature,
        scale: scales[at],
        version: answeringVersion(sequence, version),
      }),
    ),
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

/**
 * The version whose logprobs those of the sequence have to be: that of now where none is known, and null where several
 * answered.
 */
function answeringVersion(
  { policyVersion, newestVersion }: Pick<BatchSequence, 'policyVersion' | 'newestVersion'>,
  now: number,
): number | null {
  if (policyVersion !== newestVersion) return null
  return Number.isFinite(policyVersion) ? policyVersion : now
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
