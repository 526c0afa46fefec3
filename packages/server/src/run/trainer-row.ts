import { OsmosisError, type PromptMessage } from '@osmosis/core'
import { isJsonObject } from '@osmosis/core/http'
import { toExactText, toPlainJson } from '@osmosis/protocol/wire'

/** What a rollout uses of a row of a trainer's dataset. */
export interface TrainerRow {
  readonly messages: readonly PromptMessage[]
  readonly label: string | null
  /** Null when only the prompt and the label have values: a rollout without a label is then not graded. */
  readonly metadata: Readonly<Record<string, unknown>> | null
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
 * Reads a row with unknown columns. The first column with a known prompt name is the prompt (text is a
 * user message), the first with a known label name is the label. The rest is metadata; the entries of a
 * column `metadata` are merged into it, as in evaluations. A row in which the rest is empty has no metadata.
 *
 * @param input - JSON data, of which `parseExactJson` may have preserved the numbers: texts have them as they were written
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
  const plain = toPlainJson(input, 'text') as Readonly<Record<string, unknown>>
  const { metadata } = plain
  const inner = isJsonObject(metadata) ? metadata : {}
  const taken = new Set<unknown>([
    promptColumn,
    labelColumn,
    'system_prompt',
    isJsonObject(metadata) && 'metadata',
  ])
  const others = Object.entries(plain).filter(([name]) => !taken.has(name))
  const hasMetadata = Object.keys(inner).length > 0 || others.some(([, value]) => isGiven(value))
  return {
    messages: [
      ...systemMessages(input['system_prompt']),
      ...toMessages(plain[promptColumn], promptColumn),
    ],
    label: labelColumn === undefined ? null : toText(input[labelColumn]),
    metadata: hasMetadata ? { ...Object.fromEntries(others), ...inner } : null,
  }
}

function systemMessages(system: unknown): PromptMessage[] {
  return isGiven(system) ? [{ role: 'system', content: toText(system) }] : []
}

function toMessages(prompt: unknown, column: string): readonly PromptMessage[] {
  if (typeof prompt === 'string') return [{ role: 'user', content: prompt }]
  if (Array.isArray(prompt) && prompt.length > 0 && prompt.every(isMessage)) return prompt
  throw invalid(`The column ${column} must be text or a list of messages, each with a role.`)
}

function isMessage(value: unknown): value is PromptMessage {
  return isJsonObject(value) && typeof value['role'] === 'string'
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null && value !== ''
}

function toText(value: unknown): string {
  return typeof value === 'string' ? value : toExactText(value)
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_dataset', message)
}
