import { OsmosisError } from '../errors.ts'
import { type BaseWorkflowConfig, defineWorkflowConfig, type WorkflowConfig } from './config.ts'
import { isMetadataSchema } from './metadata-schema.ts'

/** Fields that a config need not have to be overridden; their values are checked like those of the config. */
const optionalFields: Readonly<Record<string, unknown>> = {
  concurrency: { maxConcurrent: 0 },
  policyLimits: { silenceSeconds: 0, maxLineBytes: 0, maxAnswerBytes: 0, awaySeconds: 0 },
  rolloutLimits: {
    modelCalls: 0,
    totalTokens: 0,
    costUsd: 0,
    seconds: 0,
    usdPerMillionTokens: { prompt: 0, completion: 0 },
    whenReached: 'grade',
  },
  policyFaults: 'grade',
}

type Fields = Readonly<Record<string, unknown>>

/**
 * A copy of a workflow's config with other values for some of its fields.
 *
 * @param values - by field, nested like the config. A field may also be written in snake_case, and as a path such as
 * `search.limit`. A value has the type of the one that it replaces; a text is read as that type where it can be.
 * @throws OsmosisError with code `invalid_config` for a field that the config does not have, and for a value of another
 * type
 */
export function overrideConfig<T extends BaseWorkflowConfig>(
  config: WorkflowConfig<T> | undefined,
  values: Fields,
): WorkflowConfig<T> | undefined {
  if (Object.keys(values).length === 0) return config
  if (config === undefined) {
    const names = Object.keys(values).join(', ')
    throw invalid(
      `The workflow has no config whose fields could be set (${names}): export defineWorkflowConfig({ … }) from the entrypoint.`,
    )
  }
  let changed = config as unknown as Fields
  for (const [name, value] of Object.entries(values)) {
    changed = withField(changed, optionalFields, { path: name.split('.'), value, above: [] })
  }
  return defineWorkflowConfig(changed as unknown as T)
}

/**
 * What the overrides of a config say, as one text that is the same for every way to write them: in snake_case, as a path or a
 * table, a number as a text, in any order.
 */
export function overridesText(values: Fields): string {
  const said = new Map<string, unknown>()
  const say = (path: readonly string[], value: unknown): void => {
    const read = parsed(value)
    if (isTable(read) && Object.keys(read).length > 0) {
      for (const [key, inner] of Object.entries(read)) say([...path, key], inner)
    } else said.set(path.map(camelCase).join('.'), read)
  }
  for (const [name, value] of Object.entries(values)) say(name.split('.'), value)
  return JSON.stringify([...said].toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

interface Override {
  readonly path: readonly string[]
  readonly value: unknown
  /** The fields above, for messages. */
  readonly above: readonly string[]
}

function withField(fields: Fields, optional: Fields, { path, value, above }: Override): Fields {
  const [given = '', ...rest] = path
  const known = { ...optional, ...fields }
  const name = [given, camelCase(given)].find((one) => Object.hasOwn(known, one))
  if (name === undefined) {
    const names = Object.keys(above.length === 0 ? fields : { ...fields, ...optional })
    throw invalid(
      `The config of the workflow has no field ${[...above, given].join('.')}: it has ${names.join(', ')}.`,
    )
  }
  const nested = { path: rest, value, above: [...above, name] }
  const own = fields[name]
  const type = own ?? optional[name]
  if (rest.length > 0) {
    if (!isTable(type))
      throw invalid(`${nested.above.join('.')} of the workflow's config has no fields.`)
    return {
      ...fields,
      [name]: withField((own ?? {}) as Fields, (optional[name] ?? {}) as Fields, nested),
    }
  }
  if (isTable(type)) {
    if (!isTable(parsed(value))) throw wrongType(nested, type)
    let table = (own ?? {}) as Fields
    for (const [key, inner] of Object.entries(parsed(value) as Fields)) {
      table = withField(table, (optional[name] ?? {}) as Fields, {
        ...nested,
        path: [key],
        value: inner,
      })
    }
    return { ...fields, [name]: table }
  }
  return { ...fields, [name]: converted(nested, type) }
}

/** The value of an override, as the type of the value that it replaces. */
function converted(override: Override, type: unknown): unknown {
  const { value } = override
  const isPlain = ['number', 'string', 'boolean'].includes(typeof type) || Array.isArray(type)
  if (!isPlain) {
    throw invalid(
      `${override.above.join('.')} of the workflow's config cannot be set: it is ${type === null ? 'null' : `a ${typeof type}`}, and only numbers, texts, true or false, lists and tables can.`,
    )
  }
  const read = [parsed(value), value].find(
    (one) => typeof one === typeof type && Array.isArray(one) === Array.isArray(type),
  )
  if (read === undefined) throw wrongType(override, type)
  return read
}

/** A text that is JSON, as what it says; other values as they are. */
function parsed(value: unknown): unknown {
  if (typeof value !== 'string') return value
  try {
    return JSON.parse(value)
  } catch {
    return value
  }
}

function wrongType({ above, value }: Override, type: unknown): OsmosisError {
  const names = { number: 'a number', string: 'a text', boolean: 'true or false' } as const
  const wanted = Array.isArray(type)
    ? 'a list'
    : (names[typeof type as keyof typeof names] ?? 'a table of its fields')
  const got = JSON.stringify(value) ?? String(value)
  return invalid(`${above.join('.')} of the workflow's config must be ${wanted}, got ${got}.`)
}

function isTable(value: unknown): value is Fields {
  if (typeof value !== 'object' || value === null || isMetadataSchema(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

function camelCase(name: string): string {
  return name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase())
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}
