import { OsmosisError } from '../../errors.ts'

/**
 * What in an answer says that its server failed. Only a choice, usage, and what is known to keep a connection
 * alive belong in an answer: everything else is an error, because half an answer must not pass for a whole one.
 */

/** Fields under which servers report a failure, in a chunk, a choice or a delta. */
const failureFields = new Set([
  'err',
  'err_msg',
  'errMsg',
  'errmsg',
  'error',
  'Error',
  'error_code',
  'errorCode',
  'error_message',
  'errorMessage',
  'error_msg',
  'errorMsg',
  'errors',
  'exception',
  'failure',
])

/** Fields that report one in a chunk; elsewhere they may mean something else. */
const chunkFailureFields = new Set([...failureFields, 'detail', 'traceback'])

/** Words of codes and states that report a failure. */
const failurePattern =
  /err|exception|fail|fault|abort|cancel|internal|invalid|unavailable|overload|exhausted|limit|time_?d?_?out/i

/**
 * Finish reasons with which servers end an answer that they broke off: vLLM and SGLang when weights are updated,
 * gateways when the engine behind them failed, DeepSeek without resources.
 */
const brokenOff =
  /abort|cancel|error|exception|fail|fault|interrupt|preempt|evict|retract|killed|terminated|shut_?down|disconnect|incomplete|unavailable|overload|insufficient_system|out_of_memory|^oom$|paused|unload|weights?_?update|time_?d?_?out/i

const ping = /^(ping|keep[-_]?alive|heartbeat)$/i

/** Whether an event without data, or of this name, only keeps the connection alive. */
export function isPing(event: string | undefined, data: string): boolean {
  return (data.trim() === '' && event !== 'error') || (event !== undefined && ping.test(event))
}

/** Whether the data of an event only keeps the connection alive. */
export function isPingData(data: { readonly type?: unknown; readonly choices?: unknown }): boolean {
  if (data.choices !== undefined) return false
  return (typeof data.type === 'string' && ping.test(data.type)) || Object.keys(data).length === 0
}

/**
 * @param event - the name of the event that has it
 * @throws OsmosisError with code `policy_stream_error` for a chunk that reports a failure, or that is not a chunk
 */
export function assertNoFailure(chunk: object, event?: string): void {
  if (event === 'error') throw reportedError(chunk)
  if (!isOrdinary(chunk as ChunkFields)) {
    const failed = failureOf(chunk, chunkFailureFields) ?? failureOfChunk(chunk as ChunkFields)
    if (failed !== undefined) throw reportedError(failed)
  }
  const { choices } = chunk as ChunkFields
  if (Array.isArray(choices)) {
    for (const choice of choices) assertNoFailureInChoice(choice as ChoiceFields)
  }
  if (!isChunk(chunk as ChunkFields)) {
    throw new OsmosisError(
      'policy_stream_error',
      `The policy sent something that is not part of an answer (expected choices or usage): ${quoted(chunk)}`,
    )
  }
}

/** @throws OsmosisError with code `policy_stream_error` for a finish reason with which a server broke off an answer */
export function assertEndedWell(finishReason: string): void {
  if (!brokenOff.test(finishReason)) return
  throw new OsmosisError(
    'policy_stream_error',
    `The server of the policy broke off its answer (finish_reason ${JSON.stringify(finishReason)}): an incomplete answer is not used.`,
  )
}

interface StatusFields {
  readonly status_code?: unknown
  readonly statusCode?: unknown
}

interface ChunkFields extends StatusFields {
  readonly choices?: unknown
  readonly usage?: unknown
  readonly object?: unknown
  readonly type?: unknown
  readonly code?: unknown
  readonly status?: unknown
  readonly success?: unknown
  readonly [key: string]: unknown
}

interface ChoiceFields {
  readonly delta?: unknown
  readonly message?: unknown
}

function isChunk({ choices, usage, object }: ChunkFields): boolean {
  // What a list, or something in its place, has in it is the accumulator's to check.
  if (choices !== undefined && choices !== null) return true
  if (usage) return true
  return object === 'chat.completion.chunk'
}

/** Fields of nearly every chunk, in which servers report nothing. */
const ordinaryFields = new Set([
  'choices',
  'created',
  'id',
  'model',
  'object',
  'system_fingerprint',
  'usage',
])

/** Whether a chunk has no field that could report a failure: most chunks are spared the rest. */
function isOrdinary(chunk: ChunkFields): boolean {
  for (const key in chunk) if (!ordinaryFields.has(key)) return false
  return chunk.object === 'chat.completion.chunk'
}

function assertNoFailureInChoice(choice: ChoiceFields | null): void {
  if (typeof choice !== 'object' || choice === null) return
  assertNoFailureIn(choice)
  assertNoFailureIn(choice.delta)
  assertNoFailureIn(choice.message)
}

function assertNoFailureIn(part: unknown): void {
  if (typeof part !== 'object' || part === null) return
  const failed = failureOf(part, failureFields)
  if (failed !== undefined) throw reportedError(failed)
}

/** What one of these fields says; undefined when none reports anything. */
function failureOf(part: object, fields: ReadonlySet<string>): unknown {
  // `in`, because every chunk comes here: a list of keys would be made for each.
  for (const key in part) {
    if (!fields.has(key)) continue
    const value = (part as Record<string, unknown>)[key]
    if (isReport(value)) return value
  }
  return undefined
}

/** Whether a chunk as a whole says that it is a failure. */
function failureOfChunk(chunk: ChunkFields): unknown {
  const { choices, object, type, code, status, success } = chunk
  const hasChoices = Array.isArray(choices) && choices.length > 0
  if (/error/i.test(String(object)) || isBadCode(code) || hasBadCode(chunk)) return chunk
  if (isBadCode(status) || success === false) return chunk
  if (!hasChoices && typeof type === 'string' && /error|exception|fail/i.test(type)) return chunk
  if (!hasChoices && !chunk.usage) {
    const { message, msg } = chunk
    if (isReport(message) || isReport(msg)) return chunk
  }
  // Fields of vendors, such as `x_groq`, `base_resp` of MiniMax and `modelStreamErrorException` of Bedrock.
  for (const key in chunk) {
    const value = chunk[key]
    if (typeof value !== 'object' || value === null || Array.isArray(value)) continue
    const { error } = value as { error?: unknown }
    if (isReport(error)) return error
    if (hasBadCode(value) || key.endsWith('Exception')) return value
  }
  return undefined
}

function isReport(value: unknown): boolean {
  return Array.isArray(value) ? value.length > 0 : Boolean(value)
}

function hasBadCode({ status_code, statusCode = status_code }: StatusFields): boolean {
  return isBadCode(statusCode)
}

function isBadCode(value: unknown): boolean {
  if (typeof value === 'number') return value !== 0 && (value < 100 || value >= 400)
  if (typeof value !== 'string') return false
  return /^-?\d+$/.test(value) ? isBadCode(Number(value)) : failurePattern.test(value)
}

function reportedError(failure: unknown): OsmosisError {
  const { error = failure } = (failure ?? {}) as { error?: unknown }
  const message = (error as { message?: unknown } | null)?.message ?? error
  return new OsmosisError(
    'policy_stream_error',
    `The policy reported an error in its answer: ${typeof message === 'string' ? message : quoted(message)}`,
  )
}

function quoted(value: unknown): string {
  return (JSON.stringify(value) ?? String(value)).slice(0, 200)
}
