import type { BaseMessage } from '@langchain/core/messages'
import { NativeSample, type RolloutContext, sharedSampleSource } from '@osmosis/core'

/** The conversation of a sample in LangChain's messages, which are the same objects in each request. */
export function conversationRecord(): NativeSample<BaseMessage> {
  return new NativeSample<BaseMessage>({
    isSame: (message, earlier) => message === earlier,
    toStored: plainMessage,
  })
}

/** A message in the form that LangChain accepts instead of its classes, without what is in `sample.calls`. */
function plainMessage(message: BaseMessage): unknown {
  const { content, name, id, additional_kwargs } = message
  const { role, tool_calls, invalid_tool_calls, tool_call_id, status } = message as Partial<{
    role: string
    tool_calls: unknown[]
    invalid_tool_calls: unknown[]
    tool_call_id: string
    status: string
  }>
  const fields = {
    role: role ?? roles[message.type] ?? message.type,
    content,
    name,
    id,
    tool_calls: unlessEmpty(tool_calls),
    invalid_tool_calls: unlessEmpty(invalid_tool_calls),
    tool_call_id,
    status,
    additional_kwargs: Object.keys(additional_kwargs).length > 0 ? additional_kwargs : undefined,
  }
  return JSON.parse(JSON.stringify(fields, storable)) as unknown
}

const roles: Readonly<Record<string, string>> = { human: 'user', ai: 'assistant' }

function unlessEmpty(list: unknown[] | undefined): unknown[] | undefined {
  return list?.length ? list : undefined
}

function storable(_key: string, value: unknown): unknown {
  if (typeof value === 'bigint') return value.toString()
  return value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value
}

const kind = Symbol.for('osmosis.langchain')

/**
 * The record of a sample, registered with the rollout when it is new. Models of one name are one sample: in
 * LangChain's programs they are made wherever they are needed.
 *
 * @throws OsmosisError with code `duplicate_sample` when something else has the name, or `invalid_id`
 */
export function recordOf(rollout: RolloutContext, name: string): NativeSample<BaseMessage> {
  return sharedSampleSource(rollout, name, { kind, create: conversationRecord })
}
