import { OsmosisError, type PromptMessage } from '@osmosis/core'

/** What a rollout gets of a row of somebody else's dataset. */
export interface TrainerRow {
  readonly messages: readonly PromptMessage[]
  readonly label: string | null
  readonly metadata: Readonly<Record<string, unknown>>
}

const promptColumns = [
  'messages',
  'initial_messages',
  'prompt',
  'question',
  'problem',
  'user_prompt',
] as const
const labelColumns = ['label', 'answer', 'ground_truth', 'result'] as const

/**
 * Reads a row whose columns nobody has agreed on: the first column that can be the prompt is it, text
 * being what a user says, and the first that can be the label is that. The rest is metadata; what is
 * in a column `metadata` of its own is found there directly, as evaluations have it.
 *
 * @throws OsmosisError with code `invalid_dataset` for a row without a prompt, or one that is neither
 * text nor messages
 */
export function rowOf(input: Readonly<Record<string, unknown>>): TrainerRow {
  const promptColumn = promptColumns.find((name) => isGiven(input[name]))
  if (promptColumn === undefined) {
    const names = promptColumns.join(', ')
    throw invalid(`The row has no prompt: it needs one of the columns ${names}.`)
  }
  const labelColumn = labelColumns.find((name) => isGiven(input[name]))
  const { metadata, system_prompt: system } = input
  const inner = isObject(metadata) ? metadata : {}
  const taken = new Set<unknown>([
    promptColumn,
    labelColumn,
    'system_prompt',
    isObject(metadata) && 'metadata',
  ])
  const others = Object.entries(input).filter(([name]) => !taken.has(name))
  return {
    messages: [...systemMessages(system), ...toMessages(input[promptColumn], promptColumn)],
    label: labelColumn === undefined ? null : toText(input[labelColumn]),
    metadata: { ...Object.fromEntries(others), ...inner },
  }
}

function systemMessages(system: unknown): PromptMessage[] {
  return isGiven(system) ? [{ role: 'system', content: toText(system) }] : []
}

function toMessages(prompt: unknown, column: string): readonly PromptMessage[] {
  if (typeof prompt === 'string') return [{ role: 'user', content: prompt }]
  if (Array.isArray(prompt) && prompt.length > 0 && prompt.every(isMessage)) return prompt
  throw invalid(
    `The column ${column} must be text or a list of messages, each with a role, and is neither.`,
  )
}

function isMessage(value: unknown): value is PromptMessage {
  return isObject(value) && typeof value['role'] === 'string'
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null && value !== ''
}

function toText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_dataset', message)
}
