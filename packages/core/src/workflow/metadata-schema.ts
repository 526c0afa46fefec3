import { errorMessage } from '../error-category.ts'
import { OsmosisError } from '../errors.ts'

/** What a row carries when nobody has declared its shape: an object, or null when it has none. */
export type AnyMetadata = Readonly<Record<string, unknown>> | null

/**
 * The shape of the metadata of a row: any schema that follows Standard Schema, such as those of
 * zod, Valibot and ArkType.
 */
export interface MetadataSchema<Parsed = unknown> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => MetadataResult<Parsed> | Promise<MetadataResult<Parsed>>
    /** There for the compiler alone. */
    readonly types?: { readonly input: unknown; readonly output: Parsed } | undefined
  }
}

/** What a {@link MetadataSchema} says of a row: what it made of it, or what does not fit. */
export type MetadataResult<Parsed> =
  | { readonly value: Parsed; readonly issues?: undefined }
  | { readonly issues: readonly MetadataIssue[] }

/** What does not fit, and where in the metadata. */
export interface MetadataIssue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

/**
 * What `ctx.metadata` is under a workflow config: what its `metadata` schema makes of the row, or
 * {@link AnyMetadata} without one.
 */
export type MetadataOf<TConfig> = TConfig extends {
  readonly metadata: MetadataSchema<infer Parsed>
}
  ? Parsed
  : AnyMetadata

/** True for what follows Standard Schema. Some libraries make functions of their schemas. */
export function isMetadataSchema(value: unknown): value is MetadataSchema {
  if ((typeof value !== 'object' || value === null) && typeof value !== 'function') return false
  const standard = (value as Partial<MetadataSchema>)['~standard'] as
    | Partial<MetadataSchema['~standard']>
    | undefined
  return typeof standard?.validate === 'function'
}

/**
 * The metadata of a row as user code sees it: parsed by the schema of the workflow's config (with its
 * defaults and transforms), or as it is without one.
 *
 * @param config - what `defineWorkflowConfig` made; undefined when there is none
 * @throws OsmosisError with code `invalid_dataset` that names each place that does not fit
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
 * Where the metadata of a row does not fit the schema of the workflow's config; empty when it does.
 *
 * @param config - what `defineWorkflowConfig` made; undefined when there is none
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
  // A copy: what a schema changes in place must not change what documents keep.
  const result = await schema['~standard'].validate(structuredClone(metadata))
  if (result.issues === undefined) return { value: result.value, problems: [] }
  const problems = result.issues.map(({ message, path = [] }) => {
    const place = path.map((key) => String(typeof key === 'object' ? key.key : key))
    return `${['metadata', ...place].join('.')}: ${message}`
  })
  return { value: undefined, problems }
}
