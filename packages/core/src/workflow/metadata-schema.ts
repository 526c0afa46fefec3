import { errorMessage, OsmosisError } from '../errors.ts'

/** Metadata without a declared shape: an object, or null when the row has none. */
export type AnyMetadata = Readonly<Record<string, unknown>> | null

/**
 * The shape of a row's metadata: a schema of zod, Valibot, ArkType or another Standard Schema library.
 */
export interface MetadataSchema<Parsed = unknown> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => MetadataResult<Parsed> | Promise<MetadataResult<Parsed>>
    /** For the compiler only. */
    readonly types?: { readonly input: unknown; readonly output: Parsed } | undefined
  }
}

/** The result of a {@link MetadataSchema}: the parsed value, or why the metadata is invalid. */
export type MetadataResult<Parsed> =
  | { readonly value: Parsed; readonly issues?: undefined }
  | { readonly issues: readonly MetadataIssue[] }

/** An invalid value, and its path in the metadata. */
export interface MetadataIssue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

/**
 * The type of `ctx.metadata` for a workflow config: the output of its `metadata` schema, or
 * {@link AnyMetadata} without one.
 */
export type MetadataOf<TConfig> = TConfig extends {
  readonly metadata: MetadataSchema<infer Parsed>
}
  ? Parsed
  : AnyMetadata

/** True for a Standard Schema. Schemas of some libraries are functions. */
export function isMetadataSchema(value: unknown): value is MetadataSchema {
  if ((typeof value !== 'object' || value === null) && typeof value !== 'function') return false
  const standard = (value as Partial<MetadataSchema>)['~standard'] as
    | Partial<MetadataSchema['~standard']>
    | undefined
  return typeof standard?.validate === 'function'
}

/**
 * The metadata of a row for user code: parsed by the schema of the workflow's config, with its defaults and
 * transforms, or unchanged without one.
 *
 * @param config - the result of `defineWorkflowConfig`, or undefined
 * @throws OsmosisError with code `invalid_dataset` that names each invalid value
 */
export async function parseMetadata(config: unknown, metadata: AnyMetadata): Promise<unknown> {
  const parsed = await parse(config, metadata)
  if (parsed.problems.length === 0) return parsed.value
  throw new OsmosisError(
    'invalid_dataset',
    `The row does not fit the workflow's metadata schema: ${parsed.problems.join('; ')}`,
  )
}

/**
 * Why the metadata of a row does not match the schema of the workflow's config; empty when it does.
 *
 * @param config - the result of `defineWorkflowConfig`, or undefined
 */
export async function metadataProblems(
  config: unknown,
  metadata: AnyMetadata,
): Promise<readonly string[]> {
  try {
    return (await parse(config, metadata)).problems
  } catch (error) {
    return [`metadata: the schema failed: ${errorMessage(error)}`]
  }
}

async function parse(
  config: unknown,
  metadata: AnyMetadata,
): Promise<{ readonly value: unknown; readonly problems: readonly string[] }> {
  const schema = (config as { metadata?: unknown } | null | undefined)?.metadata
  if (!isMetadataSchema(schema)) return { value: metadata, problems: [] }
  // A copy, because a schema may modify its input, which documents store.
  const result = await schema['~standard'].validate(structuredClone(metadata))
  if (result.issues === undefined) return { value: result.value, problems: [] }
  const problems = result.issues.map(({ message, path = [] }) => {
    const place = path.map((key) => String(typeof key === 'object' ? key.key : key))
    return `${['metadata', ...place].join('.')}: ${message}`
  })
  return { value: undefined, problems }
}
