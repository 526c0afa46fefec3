import type { StreamFn } from '@earendil-works/pi-agent-core'
import {
  type AssistantMessageEventStream,
  createAssistantMessageEventStream,
} from '@earendil-works/pi-ai'
import { OsmosisError, type RolloutContext } from '@osmosis/core'
import type { ChatCompletionRequest } from '@osmosis/core/policy'
import { converting, ModelOrigin } from '@osmosis/core/workflow'

import { AnswerMessage } from './answer-message.ts'
import { chatMessages, chatTools } from './chat-messages.ts'
import { PiSample, sampleOf } from './sample-record.ts'

/** Settings of {@link rolloutStreamFn}. */
export interface RolloutStreamSettings {
  /** The sample id of its calls. */
  name: string
  /** What the calls are for, such as `title`. Default: `agent`. */
  purpose?: string | undefined
  /** Whether the answers are training data. Default: true. */
  trainable?: boolean | undefined
  /** More fields of the request body, sent as they are: `temperature`, `max_tokens`, `min_p`, … */
  params?: Readonly<Record<string, unknown>> | undefined
  /** Answers outside of rollouts, so that one program serves both. */
  fallback?: StreamFn | undefined
}

type Call = Parameters<StreamFn>

/**
 * The policy, whichever that is at the time, as the stream function of an agent:
 * `new Agent({ streamFn: rolloutStreamFn('main') })`. The rollout is found when the function is called. All calls of one name are one
 * sample.
 *
 * A call that fails ends the run of the agent with an error message, as Pi demands, and fails the rollout unless a later call of the
 * sample is answered. Of the agent's model nothing is sent.
 *
 * @throws OsmosisError, from the function, with code `no_rollout_context` outside of rollouts without a `fallback`,
 * `wrong_rollout_context` in the async context of another rollout, `duplicate_sample` when something else has the name in the rollout,
 * or `invalid_id`
 */
export function rolloutStreamFn(settings: string | RolloutStreamSettings): StreamFn {
  const all = typeof settings === 'string' ? { name: settings } : settings
  const origin = new ModelOrigin()
  return (...call) => {
    const rollout = origin.ofCall('The function of rolloutStreamFn()')
    if (rollout !== undefined) return answerOf(rollout, all, call)
    if (all.fallback !== undefined) return all.fallback(...call)
    throw new OsmosisError(
      'no_rollout_context',
      'The function of rolloutStreamFn() needs an active rollout: run the agent inside AgentWorkflow.run(), or give another function for outside: rolloutStreamFn({ name, fallback: … }).',
    )
  }
}

function answerOf(
  rollout: RolloutContext,
  settings: RolloutStreamSettings,
  [model, context, options = {}]: Call,
): AssistantMessageEventStream {
  const { name, purpose, trainable, params } = settings
  // A conversation that is not training data must not become that of the sample.
  const sample = trainable === false ? new PiSample() : sampleOf(rollout, name)
  const policy = rollout.policy(name)
  const events = createAssistantMessageEventStream()
  const answer = new AnswerMessage(events, model)
  const recorded = sample.begin(context.messages)
  const ask = async (): Promise<void> => {
    const { signal, temperature, maxTokens, samplingParams, toolChoice, onPayload } = options
    const request = async (): Promise<ChatCompletionRequest> => {
      const tools = chatTools(context.messages)
      const body = {
        messages: chatMessages(context.messages),
        ...(tools.length > 0 ? { tools } : {}),
        ...(toolChoice === undefined ? {} : { tool_choice: toolChoice }),
        ...params,
        ...(temperature === undefined ? {} : { temperature }),
        ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
        ...samplingParams,
      }
      const changed = (await onPayload?.(body, model)) as typeof body | undefined
      return changed ?? body
    }
    try {
      const headers = { 'user-agent': 'pi' }
      const sampled = { sampleId: name, trainable }
      const body = await converting(rollout, sampled, request)
      const chunks = policy.stream(body, { signal, purpose, trainable, headers })
      for await (const chunk of chunks) answer.add(chunk)
      const completion = await chunks.completion
      const message = await converting(rollout, sampled, () => answer.finish(completion))
      sample.succeed(recorded, message)
      answer.end(message)
    } catch (error) {
      answer.fail(error, signal?.aborted === true)
    }
  }
  sample.waitFor(ask())
  return events
}
