import { isPathSegment } from '@osmosis/core'
import { z } from 'zod'

const text = z.string('must be a non-empty string').min(1, 'must be a non-empty string')
const positiveInteger = z.int('must be a positive integer').min(1, 'must be a positive integer')
const seconds = z
  .number('must be a positive number of seconds; omit it to run unbounded')
  .positive('must be a positive number of seconds; omit it to run unbounded')
const variableName = z
  .string()
  .regex(/^[A-Z_][A-Z0-9_]*$/, 'must be named in capitals, digits and underscores')
  .refine((name) => !name.startsWith('_OSMOSIS_'), 'names that start with _OSMOSIS_ are reserved')
const secretName = z
  .string('must be a string')
  .regex(/^[A-Z][A-Z0-9_]*$/, 'must be a name in capitals, digits and underscores')

/** The sections of an eval config, as they are written. */
export const configSections = {
  experiment: z.strictObject({
    rollout: text.refine(isPathSegment, 'must be the name of a folder in rollouts/'),
    entrypoint: text,
    model_path: text,
    dataset: text,
    branch: z.string().regex(/^\S+$/, 'must be a branch name').optional(),
    commit_sha: z
      .string('must be 7 to 40 hexadecimal digits')
      .regex(/^[0-9a-fA-F]{7,40}$/, 'must be 7 to 40 hexadecimal digits')
      .optional(),
  }),
  evaluation: z.strictObject({
    limit: z.int('must be an integer').optional(),
    n: positiveInteger.default(1),
    batch_size: positiveInteger.optional(),
    pass_threshold: z.number('must be a finite number').default(1),
    agent_workflow_timeout_s: seconds.optional(),
    grader_timeout_s: seconds.optional(),
  }),
  env: z.record(variableName, z.string('must be a string')),
  secrets: z.strictObject({
    required: z.array(secretName, 'must be a list of names').default([]),
  }),
  policy: z.strictObject({
    module: text.optional(),
    base_url: z.url({ protocol: /^https?$/, error: 'must be an http or https URL' }).optional(),
    model: text.optional(),
    api_key_env: text.optional(),
  }),
  advanced: z.record(z.string(), z.unknown()),
}

/** Name of a section. */
export type SectionName = keyof typeof configSections

/** Names of all sections. */
export const sectionNames = Object.keys(configSections) as readonly SectionName[]

/** All sections, checked one by one; a section with problems is undefined. */
export type CheckedSections = {
  readonly [Name in SectionName]: z.infer<(typeof configSections)[Name]> | undefined
}

/** The keys a section knows; empty for one that takes any. */
export function knownKeys(section: SectionName): readonly string[] {
  const schema = configSections[section]
  return 'shape' in schema ? Object.keys(schema.shape) : []
}
