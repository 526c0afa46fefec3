import { parse, TomlError } from 'smol-toml'
import { z } from 'zod'

import { configRules, type ConfigKind, type SectionRule, type ValueRule } from './config-rules.ts'
import { sectionProblems, unknownSection } from './section-problems.ts'

/** A config whose text was checked, but not the files it names. */
export interface ParsedConfig<Kind extends ConfigKind> {
  readonly sections: CheckedSections<Kind>
  /** One line each, as in the other lists. */
  readonly problems: string[]
  /** What only the hosted platform requires, and the config lacks. */
  readonly missingForPlatform: readonly string[]
  /** Keys that only local trainings have: the hosted platform would refuse them. */
  readonly localOnly: readonly string[]
}

/**
 * Parses the text of a config and checks everything that can be checked without reading files.
 *
 * @throws TomlError for a text that is not TOML
 */
export function parseConfig<Kind extends ConfigKind>(kind: Kind, text: string): ParsedConfig<Kind> {
  const document: Record<string, unknown> = parse(text, { unsafeKeyBehaviour: 'throw' })
  const rules = Object.entries<SectionRule>(configRules[kind])
  const names = rules.map(([name]) => name)
  const problems = Object.keys(document)
    .filter((name) => !names.includes(name))
    .map((name) => (name === 'policy' ? misplacedPolicy : unknownSection(name, names)))
  const missingForPlatform: string[] = []
  const localOnly: string[] = []

  const sections: Record<string, unknown> = {}
  for (const [name, rule] of rules) {
    const checked = sectionSchema(rule).safeParse(document[name] ?? {}, { reportInput: true })
    sections[name] = checked.data
    const keys: Readonly<Record<string, ValueRule>> = typeof rule.keys === 'object' ? rule.keys : {}
    const known = {
      own: Object.keys(keys),
      others: otherKeys(rules, name),
      // A variable may hold a key or a password.
      mayBeSecret: (key: string) => rule.keys === 'variables' || keys[key]?.mayBeSecret === true,
    }
    problems.push(...sectionProblems(name, known, checked.error?.issues ?? []))
    localOnly.push(...localOnlyProblems(name, keys, document[name]))
    missingForPlatform.push(...missingProblems(name, { ...rule, keys }, document[name]))
  }
  // The types follow from the rules that the sections were just checked against.
  const parsed = sections as CheckedSections<Kind>
  problems.push(...experimentProblems(parsed.experiment), ...secretProblems(parsed))
  return { sections: parsed, problems, missingForPlatform, localOnly }
}

/** Which section has a key that stands in another one. */
function otherKeys(
  rules: readonly (readonly [string, SectionRule])[],
  section: string,
): ReadonlyMap<string, string> {
  const others = rules.filter(([name]) => name !== section)
  return new Map(
    others.flatMap(([name, { keys }]) =>
      typeof keys === 'object' ? Object.keys(keys).map((key) => [key, name] as const) : [],
    ),
  )
}

/** A problem for each key that only local trainings have. */
function localOnlyProblems(name: string, keys: object, section: unknown): string[] {
  if (typeof section !== 'object' || section === null) return []
  return Object.entries(keys as Readonly<Record<string, ValueRule>>).flatMap(([key, rule]) =>
    rule.isLocal && Object.hasOwn(section, key)
      ? [`${name}.${key}: ${rule.onPlatform ?? 'only local trainings have it; remove it'}`]
      : [],
  )
}

/** A problem for each missing section or key that only the platform requires. */
function missingProblems(
  name: string,
  { mandatory, keys }: SectionRule,
  section: unknown,
): string[] {
  if (section === undefined)
    return mandatory === undefined ? [] : [`${name}: missing; ${mandatory}`]
  if (typeof section !== 'object' || section === null) return []
  return Object.entries<ValueRule>(keys as Readonly<Record<string, ValueRule>>).flatMap(
    ([key, rule]) => {
      if (Object.hasOwn(section, key) || rule.mandatory === undefined) return []
      return [`${name}.${key}: missing; ${rule.mandatory}`]
    },
  )
}

/**
 * The reasons for which the hosted platform would refuse a config, one line each. Files, models and datasets
 * are not checked. With `allowLocal`, keys of local trainings are no problems.
 */
export function platformProblems(
  kind: ConfigKind,
  text: string,
  { allowLocal = false }: { readonly allowLocal?: boolean } = {},
): string[] {
  try {
    const { problems, missingForPlatform, localOnly } = parseConfig(kind, text)
    return [...problems, ...missingForPlatform, ...(allowLocal ? [] : localOnly)]
  } catch (error) {
    return [tomlProblem(error)]
  }
}

/**
 * The sections of a config that has no {@link platformProblems}, with keys and values as written; an omitted
 * section is empty.
 *
 * @throws TomlError for a text that is not TOML
 */
export function configSections(
  kind: ConfigKind,
  text: string,
): Readonly<Record<string, Readonly<Record<string, unknown>> | undefined>> {
  return parseConfig(kind, text).sections
}

/**
 * The problem of a text that is not TOML, with its place.
 *
 * @throws `error` itself unless it is a TomlError
 */
export function tomlProblem(error: unknown): string {
  if (!(error instanceof TomlError)) throw error
  // The other lines of the message quote the text, which may hold a secret.
  const [problem = ''] = error.message.split('\n', 1)
  return `line ${error.line}, column ${error.column}: ${problem}`
}

const misplacedPolicy =
  "policy: the policy of local runs is not part of a config; write it as [policies.<name>] in osmosis.toml at the workspace's root"

/** Keys of `[experiment]` that cannot be combined. */
function experimentProblems(
  experiment:
    | { readonly branch?: string | undefined; readonly commit_sha?: string | undefined }
    | undefined,
): string[] {
  if (experiment?.branch === undefined || experiment.commit_sha === undefined) return []
  return ['experiment.commit_sha: cannot be combined with branch; keep one of them']
}

/** Secrets that are listed twice or have a value in `[env]`. */
function secretProblems(sections: {
  readonly env?: Readonly<Record<string, string>> | undefined
  readonly secrets?: { readonly required?: readonly string[] } | undefined
}): string[] {
  const { env = {}, secrets } = sections
  const required = secrets?.required ?? []
  return required.flatMap((name, index) => {
    const place = `secrets.required.${index}`
    if (required.indexOf(name) !== index) return [`${place}: ${name} is listed twice`]
    if (!Object.hasOwn(env, name)) return []
    return [`${place}: ${name} is set in [env] too; keep one of them`]
  })
}

const variableName = z
  .string()
  .regex(/^[A-Z_][A-Z0-9_]*$/, 'must be named in capitals, digits and underscores')
  .refine((name) => !name.startsWith('_OSMOSIS_'), 'names that start with _OSMOSIS_ are reserved')

type ValueOf<Rule extends ValueRule> = Rule extends { choices: readonly (infer Choice)[] }
  ? Choice
  : Rule['type'] extends 'string'
    ? string
    : Rule['type'] extends 'strings'
      ? readonly string[]
      : Rule['type'] extends 'string or strings'
        ? string | readonly string[]
        : Rule['type'] extends 'boolean'
          ? boolean
          : number

type KeysOf<Keys> =
  Keys extends Readonly<Record<string, ValueRule>>
    ? {
        readonly [Key in keyof Keys as Keys[Key] extends { required: true } ? Key : never]: ValueOf<
          Keys[Key]
        >
      } & {
        readonly [Key in keyof Keys as Keys[Key] extends { required: true } ? never : Key]?:
          | ValueOf<Keys[Key]>
          | undefined
      }
    : Keys extends 'variables'
      ? Readonly<Record<string, string>>
      : Readonly<Record<string, unknown>>

type Rules = typeof configRules

/** The sections of a config; a section with problems is undefined. */
export type CheckedSections<Kind extends ConfigKind> = {
  readonly [Name in keyof Rules[Kind]]:
    | (Rules[Kind][Name] extends SectionRule ? KeysOf<Rules[Kind][Name]['keys']> : never)
    | undefined
}

function sectionSchema({ keys }: SectionRule): z.ZodType<Readonly<Record<string, unknown>>> {
  if (keys === 'any') return z.record(z.string(), z.unknown())
  if (keys === 'variables') return z.record(variableName, z.string('must be a string'))
  const shape = Object.entries(keys).map(([key, rule]) => {
    const value = valueSchema(rule)
    return [key, rule.required ? value : value.optional()] as const
  })
  return z.strictObject(Object.fromEntries(shape))
}

function valueSchema(rule: ValueRule): z.ZodType {
  const { type, must, pattern = /(?:)/, least = -Infinity, most = Infinity } = rule
  const text = z.string(must).regex(pattern, must)
  if (type === 'string') return text
  if (type === 'string or strings') return z.union([text, z.array(text, must).min(1, must)], must)
  if (type === 'boolean') return z.boolean(must)
  if (type === 'strings') return z.array(text, 'must be a list')
  const number = type === 'integer' ? z.int(must) : z.number(must)
  return number
    .min(least, must)
    .max(most, must)
    .gt(rule.above ?? -Infinity, must)
}
