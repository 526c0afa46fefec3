import { z } from 'zod'

import type { configRules, ConfigKind, SectionRule, ValueRule } from './config-rules.ts'

const variableName = z
  .string()
  .regex(/^[A-Z_][A-Z0-9_]*$/, 'must be named in capitals, digits and underscores')
  .refine((name) => !name.startsWith('_OSMOSIS_'), 'names that start with _OSMOSIS_ are reserved')

type ValueOf<Rule extends ValueRule> = Rule['type'] extends 'string'
  ? string
  : Rule['type'] extends 'strings'
    ? readonly string[]
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

/** The sections of a config that were checked one by one; one with problems is undefined. */
export type CheckedSections<Kind extends ConfigKind> = {
  readonly [Name in keyof Rules[Kind]]:
    | (Rules[Kind][Name] extends SectionRule ? KeysOf<Rules[Kind][Name]['keys']> : never)
    | undefined
}

/** The schema of a section, as its rule says. */
export function sectionSchema({ keys }: SectionRule): z.ZodType<Readonly<Record<string, unknown>>> {
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
  if (type === 'string') return z.string(must).regex(pattern, must)
  if (type === 'strings') return z.array(z.string(must).regex(pattern, must), 'must be a list')
  const number = type === 'integer' ? z.int(must) : z.number(must)
  return number
    .min(least, must)
    .max(most, must)
    .gt(rule.above ?? -Infinity, must)
}
