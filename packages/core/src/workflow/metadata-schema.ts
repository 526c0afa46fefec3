import { errorMessage, OsmosisError } from '../errors.ts'

/** Metadata without a declared shape: an object, or null when the row has none. */
export type AnyMetadata = Readonly<Record<string, unknown>> | null

/**
 * The shape of a row's metadata or label: a schema of zod, Valibot, ArkType or another Standard Schema library.
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
 * @param row - its label counts only when its rollout is graded
 * @throws OsmosisError with code `invalid_dataset` that names each invalid value, and a label that the grader cannot use
 */
export async function parseRow(
  configs: { readonly workflowConfig: unknown; readonly graderConfig: unknown },
  row: {
    readonly metadata: AnyMetadata
    readonly label: string | null
    readonly grade: boolean
  },
): Promise<unknown> {
  const { workflowConfig, graderConfig } = configs as RowSchemas
  const parsed = await parse('metadata', workflowConfig?.metadata, row.metadata)
  if (parsed.problems.length > 0) {
    throw new OsmosisError(
      'invalid_dataset',
      `The row does not fit the workflow's metadata schema: ${parsed.problems.join('; ')}`,
    )
  }
  const schema = row.grade ? graderConfig?.label : undefined
  const { problems } = await parse('label', schema, row.label)
  if (problems.length === 0) return parsed.value
  throw new OsmosisError(
    'invalid_dataset',
    `The label ${JSON.stringify(row.label?.slice(0, 100) ?? null)} does not fit the grader's label schema: ${problems.join('; ')}`,
  )
}

/** The configs of an entrypoint, as far as they declare schemas of its rows. */
export interface RowSchemas {
  readonly workflowConfig?: { readonly metadata?: MetadataSchema } | undefined
  readonly graderConfig?: { readonly label?: MetadataSchema } | undefined
}

/** Why a row does not match the schemas of its metadata and its label; empty when it does. */
export async function rowProblems(
  { workflowConfig, graderConfig }: RowSchemas,
  { metadata, label }: { readonly metadata: AnyMetadata; readonly label: string | null },
): Promise<readonly string[]> {
  return [
    ...(await problemsOf('metadata', workflowConfig?.metadata, metadata)),
    ...(await problemsOf('label', graderConfig?.label, label)),
  ]
}

async function problemsOf(
  name: 'metadata' | 'label',
  schema: MetadataSchema | undefined,
  value: unknown,
): Promise<readonly string[]> {
  try {
    return (await parse(name, schema, value)).problems
  } catch (error) {
    return [`${name}: the schema failed: ${errorMessage(error)}`]
  }
}

async function parse(
  name: string,
  schema: unknown,
  given: unknown,
): Promise<{ readonly value: unknown; readonly problems: readonly string[] }> {
  if (!isMetadataSchema(schema)) return { value: given, problems: [] }
  // A copy, because a schema may modify its input, which documents store.
  const result = await schema['~standard'].validate(structuredClone(given))
  if (result.issues === undefined) return { value: result.value, problems: [] }
  const problems = result.issues.map(({ message, path = [] }) => {
    const place = path.map((key) => String(typeof key === 'object' ? key.key : key))
    return `${[name, ...place].join('.')}: ${message}`
  })
  return { value: undefined, problems }
}
