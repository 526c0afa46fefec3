import { OsmosisError } from '../../errors.ts'
import { isJsonObject, parseJson } from '../../http/json.ts'

/**
 * What in an answer says that its server failed, because half an answer must not pass for a whole one.
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

/** Words of names and kinds that report a failure. They are compared as words: `default` is no fault. */
const failureWords = wordSet(
  'err error errors errored exception exceptions fail fails failed failing failure failures fault faults faulted',
)

/** The words of codes and states that do, among them what is no failure as the name or the kind of a thing. */
const badCodeWords: ReadonlySet<string> = new Set([
  ...failureWords,
  ...wordSet(
    'abort aborted aborting cancel canceled cancelled canceling cancelling cancellation internal invalid unavailable overload overloaded exhausted limit limited limits timeout timedout',
  ),
])

/**
 * Words of finish reasons with which servers end an answer that they broke off: vLLM and SGLang when weights are
 * updated, gateways when the engine behind them failed, DeepSeek without resources.
 */
const brokenOffWords = wordSet(
  'abort aborted cancel canceled cancelled cancellation error errors errored exception fail failed failure fault interrupt interrupted interruption preempt preempted preemption evict evicted eviction retract retracted retraction killed terminated shutdown disconnect disconnected disconnection incomplete unavailable overload overloaded oom paused unload unloaded timeout timedout',
)

/** The same, in more than one word. */
const brokenOffPhrases =
  /\b(?:time[sd]? out|shut(?:ting)? down|out of memory|insufficient system|weights? updat(?:e|ed|ing)|update weights?)\b/

/** Reasons with which answers end well, also those with a word of the other list. */
const goodReasons = wordSet(
  'stop eos eos_token end_turn end_of_turn stop_sequence stop_token length max_tokens tool_calls tool_use tool_call function_call content_filter',
)

function wordSet(words: string): ReadonlySet<string> {
  return new Set(words.split(' '))
}

/** `rateLimitExceeded`, `RATE_LIMIT-EXCEEDED` and `rate limit exceeded` have the words `rate limit exceeded`. */
function wordsOf(text: string): string[] {
  return text
    .replaceAll(/([a-z])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z]+/)
    .filter((word) => word !== '')
}

function reportsFailure(text: string): boolean {
  return wordsOf(text).some((word) => failureWords.has(word))
}

function isBadWord(code: string): boolean {
  const words = wordsOf(code)
  return words.some((word) => badCodeWords.has(word)) || /\btime[sd]? out\b/.test(words.join(' '))
}

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
 * @throws OsmosisError with code `policy_stream_error` for a chunk that reports a failure
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
}

/**
 * Whether a chunk is part of an answer. Others, in which servers send timings, citations and metadata, say nothing of
 * it: whether an answer is whole is decided by its parts.
 */
export function isPartOfAnswer({ choices, usage, object }: ChunkFields): boolean {
  // What a list, or something in its place, has in it is the accumulator's to check.
  if (choices !== undefined && choices !== null) return true
  if (usage) return true
  return object === 'chat.completion.chunk'
}

/** @throws OsmosisError with code `policy_stream_error` for a JSON answer that is not one */
export function assertIsAnswer(answer: object): void {
  if (isPartOfAnswer(answer as ChunkFields)) return
  throw new OsmosisError(
    'policy_stream_error',
    `The policy sent something that is not part of an answer (expected choices or usage): ${quoted(answer)}`,
  )
}

/**
 * Whether a line that is not of an event reports a failure: a field such as `error:`, JSON, or the text of a gateway.
 * The standard of server-sent events has fields with other names ignored.
 *
 * @see https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
 */
export function isFailureLine(line: string): boolean {
  const [, name, value = ''] = /^([A-Za-z][\w.-]*):(?!\/\/)(.*)$/s.exec(line) ?? []
  if (name === undefined || reportsFailure(name)) return true
  const said = parseJson(value)
  return isJsonObject(said) && failureOf(said, chunkFailureFields) !== undefined
}

/**
 * A reason counts as that of an answer that was broken off when one of its words says so. Any other reason, known or
 * not, ends an answer: a server that fails says so in words.
 *
 * @throws OsmosisError with code `policy_stream_error` for a finish reason with which a server broke off an answer
 */
export function assertEndedWell(finishReason: string): void {
  if (goodReasons.has(finishReason.toLowerCase())) return
  const words = wordsOf(finishReason)
  const isBroken =
    words.some((word) => brokenOffWords.has(word)) || brokenOffPhrases.test(words.join(' '))
  if (!isBroken) return
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
  if (
    (typeof object === 'string' && reportsFailure(object)) ||
    isBadCode(code) ||
    hasBadCode(chunk)
  )
    return chunk
  if (isBadCode(status) || success === false) return chunk
  if (!hasChoices && typeof type === 'string' && reportsFailure(type)) return chunk
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
  return /^-?\d+$/.test(value) ? isBadCode(Number(value)) : isBadWord(value)
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
