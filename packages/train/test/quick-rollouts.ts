import type { EvaluationItem, ItemOutcome } from '@osmosis/eval'
import type { SequenceCall } from '@osmosis/protocol/trajectory'
import type { OpenRollouts, RolloutSource } from '@osmosis/train'

/** An attempt at a row. */
export interface QuickAttempt {
  /** The `sourceRowIndex` of the row. */
  readonly row: number
  /** From 0. */
  readonly attempt: number
  /** How often this attempt at the row was made before: in earlier steps. */
  readonly before: number
}

/** What an attempt comes to. */
export interface QuickRollout {
  readonly reward: number
  /** How its model calls differ from {@link quickCall}. Default: one that does not. */
  readonly calls?: readonly Partial<SequenceCall>[]
  /** What the calls name the conversation. Default: `main`. */
  readonly conversation?: string
  /** What the grader names its samples, which all have the reward. Default: `main` alone. */
  readonly sampleIds?: readonly string[]
  /** By what the grader names its samples. Default: none. */
  readonly stepRewards?: Readonly<Record<string, readonly (number | null)[]>>
}

/** A model call that samples one token, with a version that is never stale. */
function quickCall(more: Partial<SequenceCall> = {}): SequenceCall {
  return {
    promptTokenIds: [1, 2],
    completionTokenIds: [3],
    logprobs: { content: [{ token: '', logprob: -1 }] },
    error: null,
    version: null,
    trainable: true,
    sampling: {},
    finishReason: 'stop',
    ...more,
  }
}

/** Rollouts without a server, whose attempts end at once: a step of a training takes a few milliseconds. */
export function quickRollouts(
  rolloutOf: (attempt: QuickAttempt) => QuickRollout | number,
  source: Partial<RolloutSource> = {},
): OpenRollouts {
  return async () => {
    const said = new Map<string, readonly [conversation: string, readonly SequenceCall[]]>()
    const tries = new Map<string, number>()
    return {
      runner: {
        async run({ rolloutId, row, runIndex }: EvaluationItem, { onEnd }) {
          const key = `${row.sourceRowIndex}/${runIndex}`
          const before = tries.get(key) ?? 0
          tries.set(key, before + 1)
          const made = rolloutOf({ row: row.sourceRowIndex, attempt: runIndex, before })
          const rollout = typeof made === 'number' ? { reward: made } : made
          const { calls = [{}], conversation = 'main' } = rollout
          said.set(rolloutId, [conversation, calls.map((call) => quickCall(call))])
          const outcome = rewarded(rollout)
          await onEnd?.(outcome)
          said.delete(rolloutId)
          return outcome
        },
      },
      callsOf: (rolloutId) => {
        const found = said.get(rolloutId)
        return new Map(found && [[found[0], { calls: found[1] }]])
      },
      close: async () => {},
      ...source,
    }
  }
}

function rewarded({ reward, sampleIds = ['main'], stepRewards }: QuickRollout): ItemOutcome {
  return {
    status: 'success',
    reward,
    sampleRewards: Object.fromEntries(sampleIds.map((id) => [id, reward])),
    ...(stepRewards && { stepRewards }),
    samples: [],
    usage: null,
    durationMs: 0,
    errorType: null,
    errorMessage: null,
    record: { trajectories: null, graded: null, metrics: {}, gradingMs: null, trouble: null },
  }
}
