import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'

import type { ModelPrice } from '@osmosis/controller'
import { errorMessage, OsmosisError } from '@osmosis/core'
import { isJsonObject } from '@osmosis/core/http'
import { parseRedisAddress } from '@osmosis/protocol/wire'
import { parse } from 'smol-toml'
import { z } from 'zod'

import { tomlProblem } from './parse-config.ts'
import { sectionProblems, unknownSection } from './section-problems.ts'

/** `[policies.<name>]`: a policy that may answer the model calls of a local run. */
export type PolicyConfig =
  | {
      readonly kind: 'module'
      /** As written in the file. */
      readonly module: string
      /** Absolute. */
      readonly file: string
    }
  | {
      readonly kind: 'endpoint'
      /** An OpenAI-compatible endpoint; `/chat/completions` is appended. */
      readonly baseUrl: string
      /** Null: the model under evaluation. */
      readonly model: string | null
      /** The environment variable that holds the key. Null: no key is sent. */
      readonly apiKeyEnv: string | null
    }
  | {
      readonly kind: 'provider'
      /** `<provider>/<model>`, e.g. `openai/gpt-5-mini`. */
      readonly model: string
      /** The environment variable that holds the key. Null: the provider's usual one. */
      readonly apiKeyEnv: string | null
    }

/** `[queue]`: the queue over which local evaluations reach their workers. */
export interface QueueConfig {
  /** URL of its Redis. */
  readonly redis: string
  /** Prefix of its Redis keys. Null: the default of the queue. */
  readonly prefix: string | null
  /** File with the encryption keys for its data; absolute. Null: data is stored in plain text. */
  readonly keyFile: string | null
  /** Name or address under which its workers reach this machine. Null: they run on this machine. */
  readonly policyHost: string | null
}

/** The settings of `osmosis.toml` for local runs in its workspace. */
export interface WorkspaceConfig {
  /** By name. */
  readonly policies: ReadonlyMap<string, PolicyConfig>
  /** Prices of models, by the names under which they are requested. */
  readonly prices: ReadonlyMap<string, ModelPrice>
  /** The name of a policy. Null: local runs must name a policy. */
  readonly defaultPolicy: string | null
  /** Null: rollouts run on this machine. */
  readonly queue: QueueConfig | null
}

const text = z.string('must be a non-empty string').min(1, 'must be a non-empty string')
export const policySchema = z.strictObject({
  module: text.optional(),
  base_url: z.url({ protocol: /^https?$/, error: 'must be an http or https URL' }).optional(),
  model: text.optional(),
  api_key_env: text.optional(),
})
type PolicySection = z.infer<typeof policySchema>

const notDollars = 'must be a number of US dollars per million tokens'
const dollars = z.number(notDollars).min(0, notDollars)
export const priceSchema = z.strictObject({
  input: dollars,
  output: dollars,
  cached: dollars.optional(),
})

export const queueSchema = z.strictObject({
  redis: z.string('must be the address of a Redis').check(({ value, issues }) => {
    const redis = parseRedisAddress(value)
    if (typeof redis !== 'string') return
    issues.push({ code: 'custom', message: redis, input: value })
  }),
  prefix: text.optional(),
  key_file: text.optional(),
  policy_host: text.optional(),
})

const sectionNames = ['default_policy', 'policies', 'prices', 'queue']

/**
 * Reads `osmosis.toml` at the root of a workspace; the file may be missing. It has:
 * - `[policies.<name>]` with `module`, a path relative to the root; or with `base_url`, `model` and
 *   `api_key_env` of an OpenAI-compatible endpoint; or with only a provider's `model`, `<provider>/<model>`
 * - `default_policy`, the name of the policy that is used when none is requested
 * - `[prices."<model>"]` with `input`, `output` and optionally `cached`, in US dollars per million tokens
 * - `[queue]` with `redis` and optionally `prefix`, `key_file` and `policy_host`
 *
 * @throws OsmosisError with code `invalid_config`; the message lists all problems, a line each
 */
export async function readWorkspaceConfig(workspaceRoot: string): Promise<WorkspaceConfig> {
  const file = join(workspaceRoot, 'osmosis.toml')
  const problems: string[] = []
  const document = parseText(await readText(file), problems)
  problems.push(
    ...Object.keys(document)
      .filter((name) => !sectionNames.includes(name))
      .map((name) => unknownSection(name, sectionNames)),
  )
  const policies = readPolicies(document['policies'] ?? {}, workspaceRoot, problems)
  const prices = readPrices(document['prices'] ?? {}, problems)
  const queue = readQueue(document['queue'], workspaceRoot, problems)
  const defaultPolicy = document['default_policy'] ?? null
  if (defaultPolicy !== null && !policies.has(defaultPolicy as string) && problems.length === 0) {
    const names = [...policies.keys()].join(', ') || 'none'
    problems.push(`default_policy: must be the name of a policy (there is: ${names})`)
  }
  if (problems.length === 0) {
    return { policies, prices, defaultPolicy: defaultPolicy as string | null, queue }
  }
  const lines = problems.map((problem) => `- ${problem}`)
  throw new OsmosisError('invalid_config', [`Invalid ${file}:`, ...lines].join('\n'))
}

async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw new OsmosisError('invalid_config', `Cannot read ${file}: ${errorMessage(cause)}`, {
      cause,
    })
  }
}

function parseText(content: string, problems: string[]): Record<string, unknown> {
  try {
    return parse(content, { unsafeKeyBehaviour: 'throw' })
  } catch (error) {
    problems.push(tomlProblem(error))
    return {}
  }
}

function readPolicies(
  section: unknown,
  workspaceRoot: string,
  problems: string[],
): Map<string, PolicyConfig> {
  const policies = new Map<string, PolicyConfig>()
  if (!isJsonObject(section)) {
    problems.push('policies: must be a section for each policy, [policies.<name>]')
    return policies
  }
  for (const [name, value] of Object.entries(section)) {
    const place = `policies.${name}`
    const { data, error } = policySchema.safeParse(value, { reportInput: true })
    const found = error
      ? sectionProblems(
          place,
          { own: Object.keys(policySchema.shape), mayBeSecret: mayBePolicySecret },
          error.issues,
        )
      : policyProblems(place, data)
    problems.push(...found)
    if (data !== undefined && found.length === 0) policies.set(name, toPolicy(data, workspaceRoot))
  }
  return policies
}

/** An address may have a password, and a key may stand where the name of its variable belongs. */
function mayBePolicySecret(key: string): boolean {
  return key === 'base_url' || key === 'api_key_env'
}

function readPrices(section: unknown, problems: string[]): Map<string, ModelPrice> {
  const prices = new Map<string, ModelPrice>()
  if (!isJsonObject(section)) {
    problems.push('prices: must be a section for each model, [prices."<model>"]')
    return prices
  }
  for (const [model, value] of Object.entries(section)) {
    const { data, error } = priceSchema.safeParse(value, { reportInput: true })
    const keys = Object.keys(priceSchema.shape)
    problems.push(...sectionProblems(`prices."${model}"`, { own: keys }, error?.issues ?? []))
    if (data !== undefined) prices.set(model, { ...data, cached: data.cached ?? null })
  }
  return prices
}

function readQueue(
  section: unknown,
  workspaceRoot: string,
  problems: string[],
): QueueConfig | null {
  if (section === undefined) return null
  const { data, error } = queueSchema.safeParse(section, { reportInput: true })
  const known = {
    own: Object.keys(queueSchema.shape),
    // An address may have a password.
    mayBeSecret: (key: string) => key === 'redis',
  }
  problems.push(...sectionProblems('queue', known, error?.issues ?? []))
  if (data === undefined) return null
  const { redis, prefix = null, key_file: keyFile, policy_host: policyHost = null } = data
  return {
    redis,
    prefix,
    keyFile: keyFile === undefined ? null : resolve(workspaceRoot, keyFile),
    policyHost,
  }
}

function policyProblems(place: string, policy: PolicySection): string[] {
  const { module, base_url: baseUrl } = policy
  if (!/^[A-Za-z0-9_-]+$/.test(place.slice('policies.'.length))) {
    // A name with a dot or a slash would look like the path of a module in --policy.
    return [`${place}: must be named in letters, digits, - and _`]
  }
  if (module === undefined && baseUrl === undefined && !isProviderModel(policy.model)) {
    return [
      `${place}: needs module (a file that answers), base_url (an endpoint that does) or a model of a provider, model = "<provider>/<model>"`,
    ]
  }
  if (module === undefined) return []
  return (['base_url', 'model', 'api_key_env'] as const)
    .filter((key) => policy[key] !== undefined)
    .map((key) => `${place}.${key}: cannot be combined with module; keep one of them`)
}

function toPolicy(policy: PolicySection, workspaceRoot: string): PolicyConfig {
  if (policy.module !== undefined) {
    return { kind: 'module', module: policy.module, file: resolve(workspaceRoot, policy.module) }
  }
  const { base_url: baseUrl, model = null, api_key_env: apiKeyEnv = null } = policy
  if (baseUrl !== undefined) return { kind: 'endpoint', baseUrl, model, apiKeyEnv }
  return { kind: 'provider', model: model ?? '', apiKeyEnv }
}

/** Checks only the form: the provider itself is checked when it is called. */
function isProviderModel(model: string | undefined): boolean {
  return model !== undefined && /^[a-z]+\/./.test(model)
}
