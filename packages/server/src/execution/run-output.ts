import {
  type AgentWorkflowOutput,
  OsmosisError,
  type RolloutContext,
  toRolloutSample,
} from '@osmosis/core'
import { isJsonObject } from '@osmosis/core/http'
import type { SamplesById } from '@osmosis/protocol'
import { runOutputField } from '@osmosis/protocol/wire'

/** Larger outputs are not kept. Bytes of JSON. */
const maxOutputBytes = 1024 * 1024
/** The extra fields of samples may be 100 levels deep. */
const deepestOutput = 90

/** What `run()` returned, for graders: JSON data, or why there is none. */
export type RunOutput = { readonly value: unknown } | { readonly missing: string }

/** Of a rollout that the policy ended before `run()` returned. */
export const endedWithoutOutput: RunOutput = { value: null }
export const nothingReturned: RunOutput = { missing: 'run() returned nothing' }
const conversationReturned: RunOutput = {
  missing: 'run() returned its conversation, which is the sample',
}

/** The id of a returned sample, for which user code gives no name. */
const returnedSampleId = 'sample'

/**
 * Registers the value that `run` returned as the sample of the rollout when it is a conversation. Every other value is the
 * output of the rollout.
 *
 * @throws OsmosisError with code `duplicate_sample` when samples were registered as well; TypeError
 * for metrics that are not finite numbers
 */
export function registerReturned(
  context: RolloutContext,
  returned: unknown,
  label: string | null,
): RunOutput {
  const names = context.sampleSourceNames.map((name) => `"${name}"`)
  const conversation = conversationIn(returned, names.length > 0)
  if (conversation === undefined) return toRunOutput(returned)
  if (names.length > 0) {
    throw new OsmosisError(
      'duplicate_sample',
      `run() returned messages and also registered ${names.join(', ')}: a sample is either returned or registered. Agents and sessions of an adapter register themselves, so return nothing with them.`,
    )
  }
  const { messages, metrics = {} } = conversation
  for (const [name, value] of Object.entries(metrics)) {
    if (Number.isFinite(value)) continue
    throw new TypeError(`The metric "${name}" that run() returned must be a finite number.`)
  }
  context.registerSampleSource(returnedSampleId, {
    getSample: (id) => toRolloutSample({ id, messages, label, metrics }),
  })
  return conversationReturned
}

/**
 * A conversation is a list of chat messages, or an object with `messages` and at most `metrics`. Its messages may have the form
 * of a framework, unless `isRegistered`: the state of an agent that registered itself is no second conversation.
 */
function conversationIn(returned: unknown, isRegistered: boolean): AgentWorkflowOutput | undefined {
  const output = Array.isArray(returned) ? { messages: returned as unknown[] } : returned
  if (!isOutput(output)) return undefined
  if (output === returned && !isRegistered) return output
  const { messages } = output
  return messages.length > 0 && messages.every(isChatMessage) ? output : undefined
}

function isChatMessage(value: unknown): boolean {
  return typeof (value as { role?: unknown } | null | undefined)?.role === 'string'
}

function isOutput(value: unknown): value is AgentWorkflowOutput {
  if (typeof value !== 'object' || value === null) return false
  if (Object.getPrototypeOf(value) !== Object.prototype) return false
  const { messages, metrics = {}, ...others } = value as Partial<AgentWorkflowOutput>
  return Array.isArray(messages) && isJsonObject(metrics) && Object.keys(others).length === 0
}

/** A copy of what `run()` returned, when it is JSON data. */
function toRunOutput(returned: unknown): RunOutput {
  if (returned === undefined) return nothingReturned
  try {
    const problem = new OutputCheck().problemOf(returned, '', 0)
    if (problem !== undefined) return { missing: problem }
    const json = JSON.stringify(returned)
    if (Buffer.byteLength(json) > maxOutputBytes) return { missing: tooLarge }
    return { value: JSON.parse(json) as unknown }
  } catch {
    return { missing: 'run() returned an object that cannot be read' }
  }
}

/** Stores the output with the samples, where a later grading and the transcript find it. */
export function storeOutput(output: RunOutput, samples: SamplesById): void {
  const [first] = samples.values()
  if (first === undefined || !('value' in output)) return
  first.extraFields[runOutputField] = output.value
}

/** @throws OsmosisError with code `no_output` when there is none */
export function requireOutput(output: RunOutput): unknown {
  if ('value' in output) return output.value
  throw new OsmosisError(
    'no_output',
    `There is no ctx.output, because ${output.missing}. Return the JSON data that is to be graded from run(). A rollout that is graded again has what was stored when it ran.`,
  )
}

const tooLarge = `run() returned more than ${maxOutputBytes} bytes of JSON`

/** Checks that a value is JSON data, and reads no more of it than the limit. */
class OutputCheck {
  #length = 0

  /**
   * Why the value is not JSON data; undefined when it is.
   *
   * @param path - where it is in the returned value, such as `.items[0]`; '' for the returned value itself
   */
  problemOf(value: unknown, path: string, depth: number): string | undefined {
    this.#length += typeof value === 'string' ? value.length : 1
    if (this.#length > maxOutputBytes) return tooLarge
    if (value === null || typeof value === 'string' || typeof value === 'boolean') return undefined
    if (typeof value === 'number' && Number.isFinite(value)) return undefined
    if (typeof value !== 'object') return notJson(path, nameOf(value))
    if (depth === deepestOutput) return `run() returned more than ${deepestOutput} nested levels`
    if (Array.isArray(value)) {
      return firstProblem(value.entries(), ([index, item]) =>
        this.problemOf(item, `${path}[${index}]`, depth + 1),
      )
    }
    const prototype = Object.getPrototypeOf(value) as { readonly constructor: Function } | null
    if (prototype !== Object.prototype && prototype !== null) {
      return notJson(path, `an instance of ${prototype.constructor.name}`)
    }
    return firstProblem(Object.entries(value), ([key, item]) => {
      this.#length += key.length
      // JSON leaves these out, and schemas with optional fields give them.
      return item === undefined ? undefined : this.problemOf(item, `${path}.${key}`, depth + 1)
    })
  }
}

function firstProblem<T>(
  items: Iterable<T>,
  problemOf: (item: T) => string | undefined,
): string | undefined {
  for (const item of items) {
    const problem = problemOf(item)
    if (problem !== undefined) return problem
  }
  return undefined
}

function notJson(path: string, what: string): string {
  return path === '' ? `run() returned ${what}` : `run() returned data in which ${path} is ${what}`
}

function nameOf(value: unknown): string {
  return value === undefined || typeof value === 'number' ? String(value) : `a ${typeof value}`
}
