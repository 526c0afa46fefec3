import { z } from 'zod'

import type { ScoreRange } from './judge-prompt.ts'

/** What a judge said. */
export interface RubricVote {
  readonly score: number
  /** Not empty. */
  readonly explanation: string
}

/** A reply that gives no score. */
export class UnusableReply extends Error {
  override readonly name = 'UnusableReply'
}

const longestText = 200

/**
 * Reads the reply of a judge. Thinking and code fences around its JSON are taken away; a score that is no
 * finite number in the range (true, "0.5", 7 of 1) and an empty explanation are refused.
 *
 * @throws UnusableReply
 */
export function readReply(text: string, { min, max }: ScoreRange): RubricVote {
  const schema = z.object({
    score: z.number().min(min).max(max),
    explanation: z.string().trim().min(1),
  })
  const { data, error } = schema.safeParse(parse(text))
  if (data !== undefined) return data
  const problems = error.issues.map(
    ({ path, message }) => `${path.join('.') || 'reply'}: ${message}`,
  )
  throw new UnusableReply(`${problems.join('; ')} (in ${shortened(text)})`)
}

function parse(text: string): unknown {
  const said = text.replace(/^[^]*<\/think>/, '').trim()
  const [, fenced = said] = /^```(?:json)?\s*([^]*?)\s*```$/.exec(said) ?? []
  try {
    return JSON.parse(fenced)
  } catch {
    throw new UnusableReply(`it is not JSON: ${shortened(text)}`)
  }
}

function shortened(text: string): string {
  return JSON.stringify(text.length > longestText ? `${text.slice(0, longestText)}…` : text)
}
