import type { PolicyCall } from '@osmosis/core/policy'
import { formatQuantity } from '@osmosis/eval/analysis'

import { ok, warn, type CheckFinding } from '../finding.ts'
import { page } from '../pages.ts'
import type { Place } from '../place.ts'
import { loopSample, type TriedConversation, type TriedRollout } from './tried-rollout.ts'

/**
 * What each sample consists of, and where trainers split its conversation.
 *
 * @param place - of the entrypoint
 */
export function* conversationFindings(tried: TriedRollout, place: Place): Generator<CheckFinding> {
  const { conversations, policyName, requests, samples } = tried
  const removed = new Set(samples.flatMap(({ id, isRemoved }) => (isRemoved ? [id] : [])))
  for (const conversation of conversations) {
    const isRemoved = removed.has(conversation.id)
    yield ok('sample', conversationText(conversation, { policyName, isRemoved }))
    const handoff = handoffText(conversation)
    if (handoff !== undefined) yield ok('handoff', handoff)
  }
  const split = conversations.filter(isRewritten)
  const rewritten = split.map(({ id }) => id)
  if (rewritten.length > 0) {
    yield warn(
      'history',
      `A model call did not continue the conversation before it${inSample(rewritten)}: training splits the conversation there, and sees its parts as separate ones.`,
      {
        ...place,
        advice: adviceOn(split),
        page: page('severalAgents'),
      },
    )
  }
  if (requests.doubled.length > 0) {
    yield warn(
      'history',
      `A request says the same question twice, as if the history were added to itself${inSample(requests.doubled)}: the policy reads everything twice.`,
      {
        ...place,
        advice: 'Let either the session or the program keep the history, and pass ctx.prompt once.',
        page: page('frameworks'),
      },
    )
  }
}

/** `main: 3 model calls (triage 1, refunds 2), answered by scripted; 3 answers are trained`. */
function conversationText(
  { id, calls, trainedAnswers }: TriedConversation,
  { policyName, isRemoved }: { readonly policyName: string; readonly isRemoved: boolean },
): string {
  const agents = Map.groupBy(calls, ({ agent }) => agent)
  const named = [...agents].map(([agent, made]) => `${agent ?? 'unnamed'} ${made.length}`)
  // Who the one agent is, says the sample.
  const by =
    agents.size === 1 && (agents.has(null) || agents.has(id)) ? '' : ` (${named.join(', ')})`
  const failed = calls.filter(({ error }) => error !== null).length
  const untrained = calls.filter(({ trainable }) => !trainable).length
  const answered = calls.length > failed ? `, answered by ${policyName}` : ''
  return [
    `${id || loopSample}: ${formatQuantity(calls.length, 'model call')}${by}${answered}`,
    ...(failed === 0 ? [] : [`${failed} failed`]),
    isRemoved
      ? 'the grader removed it'
      : `${formatQuantity(trainedAnswers, 'answer')} ${trainedAnswers === 1 ? 'is' : 'are'} trained`,
    ...(untrained === 0 ? [] : [`${untrained} with trainable: false`]),
  ].join('; ')
}

/** Agents that hand over to one another have other instructions, and nothing to change. */
function handoffText({ id, calls }: TriedConversation): string | undefined {
  const changes = calls.flatMap((call, at) =>
    call.instructionsChanged && !call.extendsPrevious
      ? [`${calls[at - 1]?.agent ?? 'one agent'} to ${call.agent ?? 'another'}`]
      : [],
  )
  if (changes.length === 0) return undefined
  return `${id || loopSample}: ${changes.join(', ')}. The trainer splits the conversation where the instructions change, and each part has the reward of the sample.`
}

function isRewritten({ calls }: TriedConversation): boolean {
  return calls.some(beginsAnew)
}

function beginsAnew({ extendsPrevious, instructionsChanged }: PolicyCall): boolean {
  return !extendsPrevious && !instructionsChanged
}

/** An agent as a tool is the usual reason where the call that begins anew is that of another agent. */
function adviceOn(conversations: readonly TriedConversation[]): string {
  const others = conversations.flatMap(({ calls }) =>
    calls.flatMap((call, at) =>
      beginsAnew(call) && call.agent !== calls[at - 1]?.agent ? (call.agent ?? []) : [],
    ),
  )
  const append =
    'Append to the messages instead of trimming, summarising or reordering them. Another task, such as that of a sub-agent, needs a sample of its own, or trainable: false where it is not to be trained.'
  if (others.length === 0) return append
  const names = [...new Set(others)].join(', ')
  return `Another agent (${names}) began a conversation of its own in the sample, as an agent does that is called as a tool. Give its model trainable: false, or its run a sample of its own. If it went on with the conversation of the first agent, append to the messages instead of trimming, summarising or reordering them.`
}

function inSample(ids: readonly string[]): string {
  const named = ids.filter((id) => id !== '').join(', ')
  return named === '' ? '' : ` (sample ${named})`
}
