import { parse, TomlError } from 'smol-toml'

import { configRules, type ConfigKind, type SectionRule, type ValueRule } from './config-rules.ts'
import { sectionSchema, type CheckedSections } from './config-sections.ts'
import { sectionProblems, unknownSection } from './section-problems.ts'

/** A config whose text was checked, without a look at the files it names. */
export interface ParsedConfig<Kind extends ConfigKind> {
  readonly sections: CheckedSections<Kind>
  /** What is wrong, a line each. */
  readonly problems: string[]
  /** What is wrong for the hosted platform alone, a line each. */
  readonly platformProblems: string[]
}

/**
 * Parses the text of a config and checks everything that can be checked without looking at files.
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
  const platformOnly: string[] = []

  const sections: Record<string, unknown> = {}
  for (const [name, rule] of rules) {
    const checked = sectionSchema(rule).safeParse(document[name] ?? {}, { reportInput: true })
    sections[name] = checked.data
    const keys = typeof rule.keys === 'object' ? rule.keys : {}
    problems.push(...sectionProblems(name, Object.keys(keys), checked.error?.issues ?? []))
    platformOnly.push(...missingParts(name, { ...rule, keys }, document[name]))
  }
  // The types follow from the rules that the sections were just checked against.
  const parsed = sections as CheckedSections<Kind>
  problems.push(...experimentProblems(parsed.experiment), ...secretProblems(parsed))
  return { sections: parsed, problems, platformProblems: platformOnly }
}

/** What only the platform wants to be there. */
function missingParts(name: string, { mandatory, keys }: SectionRule, section: unknown): string[] {
  if (section === undefined)
    return mandatory === undefined ? [] : [`${name}: missing; ${mandatory}`]
  if (typeof section !== 'object' || section === null) return []
  return Object.entries<ValueRule>(keys as Readonly<Record<string, ValueRule>>).flatMap(
    ([key, rule]) =>
      rule.mandatory === undefined || Object.hasOwn(section, key)
        ? []
        : [`${name}.${key}: missing; ${rule.mandatory}`],
  )
}

/**
 * What the hosted platform would refuse about a config, a line each; empty when there is nothing.
 * Files are not looked at, and neither are models and datasets.
 */
export function platformProblems(kind: ConfigKind, text: string): string[] {
  try {
    const parsed = parseConfig(kind, text)
    return [...parsed.problems, ...parsed.platformProblems]
  } catch (error) {
    return [tomlProblem(error)]
  }
}

/**
 * The sections of a config that has no {@link platformProblems}, with keys and values as they are
 * written; empty for a section that it leaves out.
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
 * What is wrong with a text that is not TOML, and where.
 *
 * @throws `error` itself unless it is the parser's
 */
export function tomlProblem(error: unknown): string {
  if (!(error instanceof TomlError)) throw error
  return `line ${error.line}, column ${error.column}: ${error.message.trim()}`
}

const misplacedPolicy =
  "policy: the policy of local runs is not part of a config; write it as [policies.<name>] in osmosis.toml at the workspace's root"

/** What cannot be combined in `[experiment]`. */
function experimentProblems(
  experiment:
    | { readonly branch?: string | undefined; readonly commit_sha?: string | undefined }
    | undefined,
): string[] {
  if (experiment?.branch === undefined || experiment.commit_sha === undefined) return []
  return ['experiment.commit_sha: cannot be combined with branch; keep one of them']
}

/** Names of secrets that are repeated or have a value in `[env]`. */
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
