import { isJsonObject, parseJson } from '../../../http/json.ts'
import { brokenAnswer, quoted } from './broken-answer.ts'
import { ordinaryFields } from './chunk-shape.ts'
import { phrases, says, wordsOf } from './words.ts'

/**
 * What in an answer says that its server failed, because half an answer must not pass for a whole one.
 */

/** What names and kinds say that report a failure. */
const failures = phrases(
  'err, errmsg, error, errors, errored, exception, exceptions, fail, fails, failed, failing, failure, failures, fault, faults, faulted',
)

/** What codes and states say that do, among them what is no failure as the name or the kind of a thing. */
const badStates = phrases(
  `${[...failures].join(', ')}, abort, aborted, aborting, cancel, canceled, cancelled, canceling, cancelling, cancellation, internal, invalid, unavailable, overload, overloaded, exhausted, limit, limited, limits, timeout, timedout, time out, timed out, times out`,
)

/**
 * What finish reasons say with which servers end an answer that they broke off: vLLM and SGLang when weights are
 * updated, gateways when the engine behind them failed, DeepSeek without resources.
 */
const brokenOff = phrases(
  'abort, aborted, cancel, canceled, cancelled, cancellation, error, errors, errored, exception, fail, failed, failure, fault, interrupt, interrupted, interruption, preempt, preempted, preemption, evict, evicted, eviction, retract, retracted, retraction, killed, terminated, shutdown, shut down, shutting down, disconnect, disconnected, disconnection, incomplete, unavailable, overload, overloaded, oom, out of memory, paused, unload, unloaded, timeout, timedout, time out, timed out, times out, insufficient system, weight update, weight updated, weight updating, weights update, weights updated, weights updating, update weight, update weights',
)

/** Reasons with which answers end well, also those with a word of the other list. */
const endedWell = phrases(
  'stop, eos, eos_token, end_turn, end_of_turn, stop_sequence, stop_token, length, max_tokens, tool_calls, tool_use, tool_call, function_call, content_filter',
)

/** The fields in which servers report failures, in a chunk, a choice or a delta: named by the first, perhaps with the others. */
const reportNames = phrases('err, errmsg, error, errors, exception, failure')
const reportParts = phrases(`${[...reportNames].join(', ')}, code, message, msg`)

/** Fields that report one in a chunk; elsewhere they may mean something else. */
const chunkReports = phrases('detail, traceback')

/** What nearly every chunk is, which is spared the look at its words. */
const chunkKind = 'chat.completion.chunk'

interface SentFields {
  readonly [key: string]: unknown
}

/**
 * @param event - the name of the event that has it
 * @throws OsmosisError with code `policy_stream_error` for a chunk that reports a failure
 */
export function assertNoFailure(chunk: SentFields, event?: string): void {
  const failed = event === 'error' ? chunk : (reportIn(chunk, chunkReports) ?? failureOf(chunk))
  if (failed !== undefined) throw reported(failed)
  const { choices } = chunk
  if (!Array.isArray(choices)) return
  for (const choice of choices as (SentFields | null)[]) {
    const report = reportIn(choice) ?? reportIn(choice?.['delta']) ?? reportIn(choice?.['message'])
    if (report !== undefined) throw reported(report)
  }
}

/**
 * Whether a line that is not of an event reports a failure: a field such as `error:`, JSON, or the text of a gateway.
 * The standard of server-sent events has fields with other names ignored.
 *
 * @see https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
 */
export function isFailureLine(line: string): boolean {
  const [, name, value = ''] = /^([A-Za-z][\w.-]*):(?!\/\/)(.*)$/s.exec(line) ?? []
  if (name === undefined || says(name, failures)) return true
  return reportIn(parseJson(value), chunkReports) !== undefined
}

/**
 * A reason counts as that of an answer that was broken off when it says so. Any other reason, known or not, ends an
 * answer: a server that fails says so in words.
 *
 * @throws OsmosisError with code `policy_stream_error` for a finish reason with which a server broke off an answer
 */
export function assertEndedWell(finishReason: string): void {
  if (endedWell.has(finishReason.toLowerCase()) || !says(finishReason, brokenOff)) return
  throw brokenAnswer(
    `The server of the policy broke off its answer (finish_reason ${JSON.stringify(finishReason)}): an incomplete answer is not used.`,
  )
}

/** What a field of `part` says that reports failures; undefined when none says anything. */
function reportIn(part: unknown, more?: ReadonlySet<string>): unknown {
  if (!isJsonObject(part)) return undefined
  for (const key in part) {
    if (ordinaryFields.has(key)) continue
    const value = part[key]
    if (isReport(value) && (isReportName(key) || more?.has(key))) return value
  }
  return undefined
}

function isReportName(key: string): boolean {
  const words = wordsOf(key)
  return words.some((word) => reportNames.has(word)) && words.every((word) => reportParts.has(word))
}

/** What says that a chunk as a whole is a failure. */
function failureOf(chunk: SentFields): unknown {
  const { choices, usage, object, type, success, message, msg } = chunk
  const isOfAnswer = Array.isArray(choices) && choices.length > 0
  if (success === false || hasBadCode(chunk) || (object !== chunkKind && isText(object, failures)))
    return chunk
  if (!isOfAnswer && isText(type, failures)) return chunk
  if (!isOfAnswer && !usage && (isReport(message) || isReport(msg))) return chunk
  // Fields of vendors, such as `x_groq`, `base_resp` of MiniMax and `modelStreamErrorException` of Bedrock.
  for (const key in chunk) {
    const value = chunk[key]
    if (!isJsonObject(value)) continue
    if (isReport(value['error'])) return value['error']
    if (isBadCode(statusOf(value)) || key.endsWith('Exception')) return value
  }
  return undefined
}

function hasBadCode(chunk: SentFields): boolean {
  return [chunk['code'], chunk['status'], statusOf(chunk)].some(isBadCode)
}

function statusOf({ status_code: code, statusCode = code }: SentFields): unknown {
  return statusCode
}

function isBadCode(value: unknown): boolean {
  const code = typeof value === 'string' && /^-?\d+$/.test(value) ? Number(value) : value
  if (typeof code === 'number') return code !== 0 && (code < 100 || code >= 400)
  return isText(code, badStates)
}

function isText(value: unknown, known: ReadonlySet<string>): boolean {
  return typeof value === 'string' && says(value, known)
}

function isReport(value: unknown): boolean {
  return Array.isArray(value) ? value.length > 0 : Boolean(value)
}

function reported(failure: unknown): Error {
  const { error = failure } = (failure ?? {}) as { error?: unknown }
  const message = (error as { message?: unknown } | null)?.message ?? error
  const text = typeof message === 'string' ? message : quoted(message)
  return brokenAnswer(`The policy reported an error in its answer: ${text}`)
}
