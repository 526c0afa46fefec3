import { OsmosisError } from '../errors.ts'

/**
 * The text that an answer is compared with, without white space around it.
 *
 * @throws OsmosisError with code `invalid_dataset` without one: every answer would be right, or none
 */
export function reference(score: string, label: string | null | undefined): string {
  const text = label?.trim() ?? ''
  if (text !== '') return text
  throw new OsmosisError(
    'invalid_dataset',
    `${score} needs a reference answer, got ${label === '' ? "''" : JSON.stringify(label ?? null)}. Give the row a ground_truth, or reward it by another rule.`,
  )
}

/** The label as the row has it. Throws what `reference` throws. */
export function requireLabel(label: string | null): string {
  reference('ctx.requireLabel()', label)
  return label ?? ''
}
