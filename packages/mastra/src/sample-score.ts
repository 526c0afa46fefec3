import { MessageList } from '@mastra/core/agent'
import type { MessageInput } from '@mastra/core/agent/message-list'
import { type GraderContext, OsmosisError, type RolloutSample } from '@osmosis/core'

/** What {@link scoreSample} needs of a scorer: all that `createScorer()` of Mastra makes have it. */
export interface SampleScorer {
  readonly id?: string
  // A method, and of `never`, because each scorer has the input and output that its author chose.
  run(run: { input: never; output: never; groundTruth: string | null }): Promise<ScorerVerdict>
}

/** The part of a result of a scorer that is looked at. */
export interface ScorerVerdict {
  readonly score?: unknown
  readonly notScorable?: { readonly reason?: string } | undefined
}

/**
 * The score that a scorer of Mastra gives a sample, as its reward:
 * `ctx.setReward(await scoreSample(scorer, ctx))`. The scorer gets what Mastra gives scorers of the type `agent`: as
 * `run.input` the messages up to the last one of the user, as `run.output` those after it, and the label as
 * `run.groundTruth`.
 *
 * @param sample - default: the only sample of the rollout
 * @throws OsmosisError with code `invalid_reward` when the scorer returned `notScorable()`, or no finite number; whatever the scorer
 * throws
 */
export async function scoreSample(
  scorer: SampleScorer,
  ctx: Pick<GraderContext, 'label' | 'sample'>,
  sample: RolloutSample = ctx.sample,
): Promise<number> {
  const { score, notScorable } = await scorer.run({
    ...scoredRun(sample.messages as readonly ScoredMessage[]),
    groundTruth: ctx.label,
  })
  if (typeof score === 'number' && Number.isFinite(score)) return score
  const why = notScorable
    ? `it is not scorable: ${notScorable.reason ?? 'no reason was given'}`
    : `got ${String(score)}`
  throw new OsmosisError(
    'invalid_reward',
    `The scorer ${JSON.stringify(scorer.id ?? '')} must give sample "${sample.id}" a finite number as its score; ${why}. ctx.removeSample() removes a sample that is not to be graded.`,
  )
}

type ScoredMessage = { readonly role: string; readonly content: unknown }

/** A conversation as Mastra gives it to the scorers of an agent. */
function scoredRun(messages: readonly ScoredMessage[]): { input: never; output: never } {
  const systemMessages = messages.filter(({ role }) => role === 'system')
  const others = messages.filter(({ role }) => role !== 'system')
  const answerFrom = others.findLastIndex(({ role }) => role === 'user') + 1
  const run: { input: object; output: unknown[] } = {
    input: {
      inputMessages: storedMessages(others.slice(0, answerFrom), 'input'),
      rememberedMessages: [],
      systemMessages,
      taggedSystemMessages: {},
    },
    output: storedMessages(others.slice(answerFrom), 'response'),
  }
  return run as { input: never; output: never }
}

/** Messages in the form in which Mastra stores them. */
function storedMessages(
  messages: readonly ScoredMessage[],
  source: 'input' | 'response',
): unknown[] {
  return new MessageList().add(messages as MessageInput[], source).get.all.db()
}
