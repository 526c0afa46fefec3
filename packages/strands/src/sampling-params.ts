import { OsmosisError } from '@osmosis/core'

/**
 * Sampling parameters in the names of chat completions; they go into the body of every request as
 * they are. Anything the endpoint understands may stand here, `null` leaves a parameter out.
 */
export interface SamplingParams {
  temperature?: number | null
  top_p?: number | null
  /** The longest answer. Tokens. */
  max_tokens?: number | null
  /** The same, in newer endpoints. Tokens. */
  max_completion_tokens?: number | null
  frequency_penalty?: number | null
  presence_penalty?: number | null
  stop?: string | string[] | null
  seed?: number | null
  logprobs?: boolean | null
  top_logprobs?: number | null
  parallel_tool_calls?: boolean | null
  /** More fields of the body, as in the `openai` package. */
  extra_body?: Readonly<Record<string, unknown>> | null
  /** More headers. They cannot replace the ids and the key of the rollout. */
  extra_headers?: Readonly<Record<string, string>> | null
  [name: string]: unknown
}

/** Sampling parameters as the parts of a request that they become. */
export interface RequestSettings {
  readonly body: Readonly<Record<string, unknown>>
  readonly headers: Readonly<Record<string, string>>
}

/** Set by the rollout or by Strands; a value here would be overwritten or break the rollout. */
const managed = new Set([
  'model',
  'model_id',
  'messages',
  'stream',
  'tools',
  'tool_choice',
  'n',
  'api_key',
  'api_base',
  'base_url',
])

/**
 * The parts of a request that `params` become.
 *
 * @throws OsmosisError with code `invalid_config` for a name that is not one of chat completions or
 * that the rollout decides, and for a header that cannot be sent
 */
export function toRequestSettings(params: Readonly<SamplingParams>): RequestSettings {
  const { extra_body, extra_headers, ...rest } = params
  const body: Record<string, unknown> = { ...rest, ...extra_body }
  for (const [name, value] of Object.entries(body)) {
    assertOwnToSet(name)
    if (value === null || value === undefined) delete body[name]
  }
  const headers = { ...extra_headers }
  for (const [name, value] of Object.entries(headers)) assertHeader(name, value)
  return { body, headers }
}

function assertOwnToSet(name: string): void {
  const wireName = name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
  if (managed.has(wireName)) {
    throw new OsmosisError(
      'invalid_config',
      `The parameter "${name}" of OsmosisRolloutModel is not yours to set: the rollout decides which policy answers, and the agent what it is asked. Leave it out.`,
    )
  }
  if (wireName === name) return
  throw new OsmosisError(
    'invalid_config',
    `The parameters of OsmosisRolloutModel have the names of chat completions: write "${wireName}" instead of "${name}".`,
  )
}

function assertHeader(name: string, value: unknown): void {
  if (
    /^[\w!#$%&'*+.^`|~-]+$/.test(name) &&
    typeof value === 'string' &&
    /^[\t\x20-\x7e]*$/.test(value)
  ) {
    return
  }
  throw new OsmosisError(
    'invalid_config',
    `The header ${JSON.stringify(name)} in extra_headers of OsmosisRolloutModel cannot be sent: values are printable ASCII text.`,
  )
}
