import { mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'

import type { PolicyRequest } from '@osmosis/controller'
import {
  AgentWorkflow,
  Grader,
  requireRolloutContext,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import type { DatasetRow } from '@osmosis/eval'
import { createRolloutServer, LocalBackend, serve } from '@osmosis/server'
import {
  servedRollouts,
  type Learner,
  type OpenRollouts,
  type TrainingBatch,
  type UpdateFigures,
  type UpdateSettings,
} from '@osmosis/train'
import { onTestFinished } from 'vitest'

/** A prompt as the policy sees it, and what it answers; `refused`: an error instead. */
export interface KnownCall {
  readonly prompt: readonly number[]
  readonly ids: readonly number[]
  readonly logprobs: readonly number[]
  readonly isCut?: true
  readonly isWithoutIds?: true
  readonly isRefused?: true
  /** Of the policy that answers. Default: the current one. */
  readonly version?: number
  /** What the agent sends beside messages. Default: its temperature. */
  readonly settings?: Readonly<Record<string, unknown>>
}

/** An attempt of which everything is known. */
interface KnownAttempt {
  /** The calls of each sample, in the order in which they are made. */
  readonly calls: Readonly<Record<string, readonly KnownCall[]>>
  /** Of each sample; `removed`: it is removed from training. */
  readonly rewards: Readonly<Record<string, number | 'removed'>>
  readonly stepRewards?: Readonly<Record<string, readonly (number | null)[]>>
  readonly fails?: true
}

/** The attempts at each row, by its position in the dataset. */
export type KnownAttempts = Readonly<Record<number, readonly KnownAttempt[]>>

/** At which the calls of a sample are made. */
const temperatures: Readonly<Record<string, number>> = { asker: 1, solver: 0.7 }

/** A row that says its position. */
export function knownRow(at: number): DatasetRow {
  const initialMessages = [{ role: 'user' as const, content: `row ${at}` }]
  return { sourceRowIndex: at, initialMessages, label: '', metadata: null, otherColumns: {} }
}

/** A learner that answers as attempts say and keeps its updates. */
export class KnownLearner implements Learner {
  readonly name = 'known'
  readonly updates: { readonly batch: TrainingBatch; readonly settings: UpdateSettings }[] = []
  /** All that it was asked, in the order in which it was. */
  readonly requests: PolicyRequest[] = []
  /** Positions of the rows that it was asked about, by its version at that time. */
  readonly asked = new Map<number, Set<number>>()
  readonly #attempts: KnownAttempts
  readonly #turns = new Map<string, number>()
  version = 0

  constructor(attempts: KnownAttempts) {
    this.#attempts = attempts
  }

  readonly policy = {
    name: 'known',
    respond: async (request: PolicyRequest): Promise<Response> => {
      const { rolloutId, sampleId } = request
      this.requests.push(request)
      const [, row = '', run = ''] = /^eval-(\d+)-run-(\d+)/.exec(rolloutId) ?? []
      this.asked.set(this.version, this.asked.get(this.version) ?? new Set())
      this.asked.get(this.version)?.add(Number(row))
      const key = JSON.stringify([rolloutId, sampleId])
      const turn = this.#turns.get(key) ?? 0
      this.#turns.set(key, turn + 1)
      const call = this.#attempts[Number(row)]?.[Number(run)]?.calls[sampleId]?.[turn]
      if (call === undefined || call.isRefused) {
        return Response.json({ error: { message: 'no', code: 'no' } }, { status: 400 })
      }
      return Response.json({
        id: `${key}-${turn}`,
        object: 'chat.completion',
        created: 0,
        model: `policy-${call.version ?? this.version}`,
        prompt_token_ids: call.prompt,
        choices: [
          {
            index: 0,
            message: { role: 'assistant', content: `${turn}` },
            finish_reason: call.isCut ? 'length' : 'stop',
            ...(call.isWithoutIds ? {} : { token_ids: call.ids }),
            logprobs: { content: call.logprobs.map((logprob) => ({ token: '', logprob })) },
          },
        ],
      })
    },
  }

  async update(batch: TrainingBatch, settings: UpdateSettings): Promise<UpdateFigures> {
    this.updates.push({ batch, settings })
    this.version += 1
    const unknown = { loss: null, entropy: null, clipFraction: null, kl: null, gradNorm: null }
    const counts = { tokens: 0, sequences: batch.sequences.length, seconds: 0 }
    return { ...unknown, driftMean: null, driftMax: null, ...counts }
  }

  async save(folder: string): Promise<void> {
    await mkdir(folder, { recursive: true })
    await writeFile(path.join(folder, 'version'), String(this.version))
  }

  async load(folder: string): Promise<void> {
    this.version = Number(await readFile(path.join(folder, 'version'), 'utf8'))
  }

  async export(): Promise<void> {}
  async close(): Promise<void> {}
}

/** A server whose agent makes the calls of these attempts and whose grader gives their rewards. */
export async function knownRollouts(
  attempts: KnownAttempts,
  sampling: Readonly<Record<string, unknown>> = {},
): Promise<OpenRollouts> {
  const attemptOf = (ctx: Pick<GraderContext, 'group'>, prompt: unknown): KnownAttempt => {
    const [, row = ''] = /row (\d+)/.exec(JSON.stringify(prompt)) ?? []
    const attempt = attempts[Number(row)]?.[(ctx.group?.attempt ?? 0) - 1]
    if (attempt === undefined) throw new Error(`Nothing is known about this attempt at row ${row}.`)
    return attempt
  }

  class MakesKnownCalls extends AgentWorkflow {
    async run(ctx: AgentWorkflowContext): Promise<void> {
      const attempt = attemptOf(ctx, ctx.prompt)
      for (const [sample, calls] of Object.entries(attempt.calls)) {
        const policy = requireRolloutContext('MakesKnownCalls').registerPolicySample(sample)
        for (const [turn, call] of calls.entries()) {
          const messages: ChatMessage[] = [...ctx.prompt, { role: 'user', content: `turn ${turn}` }]
          const settings = { temperature: temperatures[sample], ...call.settings }
          const made = policy.complete({ messages, ...settings })
          if (call.isRefused) await made.catch(() => {})
          else await made
        }
      }
      if (attempt.fails) throw new Error('It fails after its calls.')
    }
  }

  class GivesKnownRewards extends Grader {
    async grade(ctx: GraderContext): Promise<void> {
      const [sample] = ctx.samples.values()
      const attempt = attemptOf(ctx, sample?.messages)
      for (const [id, reward] of Object.entries(attempt.rewards)) {
        if (reward === 'removed') ctx.removeSample(id)
        else ctx.setSampleReward(id, reward)
      }
      for (const [id, steps] of Object.entries(attempt.stepRewards ?? {})) {
        ctx.setStepRewards(id, steps)
      }
    }
  }

  const backend = new LocalBackend({ workflow: MakesKnownCalls, grader: GivesKnownRewards })
  const app = createRolloutServer({ backend, trajectories: false, logger: false })
  const server = await serve(app, { port: 0, handleSignals: false })
  onTestFinished(() => server.close())
  return servedRollouts({ server: { url: server.url }, sampling })
}
