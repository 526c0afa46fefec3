import type { CompletionParams } from '../rollout-agent-loop.ts'
import { OsmosisValidationError } from '../rollout-errors.ts'

const known = new Set(['temperature', 'top_p', 'max_tokens', 'stop', 'logprobs', 'model'])
/** Parameters that `ctx.chat` sets itself. */
const reserved = ['messages', 'rollout_id']

/** The parameters of a model call around its messages, in the order they are sent. */
export interface SentParameters {
  readonly model: string
  readonly temperature: number
  readonly top_p: number
  readonly max_tokens: number
  readonly stop: readonly string[] | null
  readonly logprobs: boolean
}

/**
 * Converts the parameters that a loop passes.
 *
 * @throws OsmosisValidationError with code `invalid_request` for values of the wrong type
 */
export function toSentParameters(params: Readonly<CompletionParams>): SentParameters {
  for (const name of reserved) {
    if (params[name] !== undefined) {
      throw invalid(`${name} is set by ctx.chat and cannot be passed as a parameter.`)
    }
  }
  const { model = 'default', logprobs = true } = params
  if (typeof model !== 'string') throw invalid('model must be a string.')
  if (typeof logprobs !== 'boolean') throw invalid('logprobs must be a boolean.')
  return {
    model,
    temperature: numberOf(params, 'temperature', 1),
    top_p: numberOf(params, 'top_p', 1),
    max_tokens: numberOf(params, 'max_tokens', 512),
    stop: normalizeStop(params.stop),
    logprobs,
  }
}

/** The parameters that the protocol does not have. */
export function unknownParameters(params: Readonly<CompletionParams>): string[] {
  return Object.keys(params).filter((name) => !known.has(name) && !reserved.includes(name))
}

/**
 * The wire form of `stop`: a list of strings, or null to omit it. A string becomes a list of one, other
 * items of a list become text, other values are omitted.
 */
function normalizeStop(stop: unknown): string[] | null {
  if (typeof stop === 'string') return [stop]
  return Array.isArray(stop) ? stop.map(String) : null
}

function numberOf(params: Readonly<CompletionParams>, name: string, fallback: number): number {
  const value = params[name]
  if (value === undefined) return fallback
  if (typeof value === 'number' && Number.isFinite(value)) return value
  throw invalid(`${name} must be a number, got ${JSON.stringify(value)}.`)
}

function invalid(message: string): OsmosisValidationError {
  return new OsmosisValidationError('invalid_request', message)
}
