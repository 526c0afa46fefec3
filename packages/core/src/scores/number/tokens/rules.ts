import type { Kind, Tokens } from './tokens.ts'

/** Where it ends, when a text has it from this token on; else undefined. */
export interface Rule {
  (tokens: Tokens, at: number): number | undefined
  /** The texts of the token with which it begins; undefined when it may be any. */
  readonly first?: () => ReadonlySet<string> | undefined
  /** Whether it may hold for no token, so that what is behind it may come first. */
  readonly mayBeEmpty?: boolean
}

type Part = Rule | string

function ruleOf(part: Part): Rule {
  return typeof part === 'string' ? text(part) : part
}

/** A token with one of these texts. */
export function text(...texts: readonly string[]): Rule {
  const all = new Set(texts)
  const [only] = texts
  const isIt = (said: string): boolean => (all.size === 1 ? said === only : all.has(said))
  return Object.assign(whose(isIt), { first: () => all })
}

/** A token that is one of the words of a list with spaces between them. */
export function words(list: string): Rule {
  return text(...list.split(' '))
}

/** A token whose text this is true of. */
export function whose(isIt: (text: string) => boolean): Rule {
  return (tokens, at) => (isIt(tokens.text(at)) ? at + 1 : undefined)
}

/** A token of one of these kinds. */
export function kind(...kinds: readonly Kind[]): Rule {
  const [only, ...others] = kinds
  if (others.length === 0) return (tokens, at) => (tokens.kind(at) === only ? at + 1 : undefined)
  return (tokens, at) => (kinds.includes(tokens.kind(at)) ? at + 1 : undefined)
}

export const anyDigits = kind('digits')

export function digits(least: number, most: number): Rule {
  return (tokens, at) => {
    const { length } = tokens.text(at)
    const fits = tokens.kind(at) === 'digits' && length >= least && length <= most
    return fits ? at + 1 : undefined
  }
}

/** One rule behind the other. A text stands for its token. */
export function sequence(...parts: readonly Part[]): Rule {
  const rules = parts.map(ruleOf)
  const holds: Rule = (tokens, at) => {
    let end: number | undefined = at
    for (const rule of rules) {
      end = rule(tokens, end)
      if (end === undefined) return undefined
    }
    return end
  }
  const reading = rules.findIndex((rule) => rule.mayBeEmpty !== true)
  const beginning = reading === -1 ? rules : rules.slice(0, reading + 1)
  return Object.assign(holds, { first: () => firstOf(beginning), mayBeEmpty: reading === -1 })
}

/** The first of some rules that holds. Only those are tried that may begin with the token. */
export function either(...parts: readonly Part[]): Rule {
  const rules = parts.map(ruleOf)
  let choice: Choice | undefined
  const holds: Rule = (tokens, at) => {
    choice ??= choiceOf(rules)
    const { beginning, others } = choice
    const candidates = beginning.size === 0 ? others : (beginning.get(tokens.text(at)) ?? others)
    for (const rule of candidates) {
      const end = rule(tokens, at)
      if (end !== undefined) return end
    }
    return undefined
  }
  const mayBeEmpty = rules.some((rule) => rule.mayBeEmpty)
  return Object.assign(holds, { first: () => firstOf(rules), mayBeEmpty })
}

interface Choice {
  /** The rules for a token with this text. */
  readonly beginning: ReadonlyMap<string, readonly Rule[]>
  /** Those for a token with any other text. */
  readonly others: readonly Rule[]
}

function choiceOf(rules: readonly Rule[]): Choice {
  const firsts = rules.map((rule) => (rule.mayBeEmpty ? undefined : rule.first?.()))
  const texts = firsts.flatMap((first) => [...(first ?? [])])
  const rulesFor = (said: string): readonly Rule[] =>
    rules.filter((_, index) => firsts[index]?.has(said) ?? true)
  return {
    beginning: new Map(texts.map((said) => [said, rulesFor(said)])),
    others: rules.filter((_, index) => firsts[index] === undefined),
  }
}

function firstOf(rules: readonly Rule[]): ReadonlySet<string> | undefined {
  const all = new Set<string>()
  for (const rule of rules) {
    const first = rule.first?.()
    if (first === undefined) return undefined
    for (const said of first) all.add(said)
  }
  return all
}

export function maybe(...parts: readonly Part[]): Rule {
  const rule = sequence(...parts)
  const holds: Rule = (tokens, at) => rule(tokens, at) ?? at
  return Object.assign(holds, { first: rule.first, mayBeEmpty: true })
}

/** A rule again and again. It must not hold for no token. */
export function many(rule: Rule, { least = 0, most = Infinity } = {}): Rule {
  const holds: Rule = (tokens, at) => {
    let end = at
    for (let count = 0; count < most; count++) {
      const next = rule(tokens, end)
      if (next === undefined) return count < least ? undefined : end
      end = next
    }
    return end
  }
  return Object.assign(holds, { first: rule.first, mayBeEmpty: least === 0 })
}

/** That a rule does not hold. */
export function not(rule: Rule): Rule {
  return looking((tokens, at) => (rule(tokens, at) === undefined ? at : undefined))
}

/** That a rule holds, of what is read behind it. */
export function ahead(rule: Rule): Rule {
  return looking((tokens, at) => (rule(tokens, at) === undefined ? undefined : at))
}

/** That a rule holds for the token before. */
export function behind(rule: Rule): Rule {
  return looking((tokens, at) => (rule(tokens, at - 1) === undefined ? undefined : at))
}

/** It reads nothing, so nothing begins with it. */
function looking(holds: Rule): Rule {
  return Object.assign(holds, { first: () => new Set<string>(), mayBeEmpty: true })
}
