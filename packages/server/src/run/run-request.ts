import { randomUUID } from 'node:crypto'

import { isOsmosisError, OsmosisError, type PromptMessage } from '@osmosis/core'
import { type TraceHeaders, isJsonObject } from '@osmosis/core/http'
import type { RolloutRequest } from '@osmosis/protocol'
import {
  parseExactJson,
  type RunRequestBody,
  runRequestSchema,
  toExactText,
  toPlainJson,
} from '@osmosis/protocol/wire'

import { HttpRefusal } from '../http/server-route.ts'
import type { RowGroupOptions } from './row-groups.ts'
import type { RunAnswerRules } from './run-answer.ts'

/** Options of `POST /run`. */
export interface RunRouteOptions extends RunAnswerRules, RowGroupOptions {
  /** Time limit of the workflow. Seconds; default: as long as the trainer waits. */
  agentTimeoutSeconds?: number | undefined
  /** Time limit of the grader. Seconds; default: as long as the trainer waits. */
  graderTimeoutSeconds?: number | undefined
}

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

/** Names of inference servers for settings of chat completions. */
const otherNames = new Map([
  ['max_new_tokens', 'max_tokens'],
  ['min_new_tokens', 'min_tokens'],
  ['sampling_seed', 'seed'],
])

/**
 * The sampling settings that a trainer may set: those of chat completions, and those that vLLM and SGLang
 * add. The agent decides about messages and tools, and reads only one answer (`n` is not allowed).
 */
const chatSettings = new Set([
  'chat_template_kwargs',
  'enable_thinking',
  'frequency_penalty',
  'ignore_eos',
  'include_stop_str_in_output',
  'logit_bias',
  'logprobs',
  'max_completion_tokens',
  'max_tokens',
  'min_p',
  'min_tokens',
  'no_stop_trim',
  'presence_penalty',
  'reasoning_effort',
  'repetition_penalty',
  'return_token_ids',
  'seed',
  'separate_reasoning',
  'skip_special_tokens',
  'spaces_between_special_tokens',
  'stop',
  'stop_regex',
  'stop_token_ids',
  'temperature',
  'thinking_token_budget',
  'top_k',
  'top_logprobs',
  'top_p',
  'truncate_prompt_tokens',
])

/** The sampling parameters of a trainer. */
interface SamplingSettings {
  /** For the body of each model call. */
  readonly body: Readonly<Record<string, unknown>>
  /** Names that chat completions do not have. */
  readonly dropped: readonly string[]
}

/** Translates the sampling parameters of a trainer. */
function toSamplingSettings(
  given: Readonly<Record<string, unknown>> | null | undefined,
): SamplingSettings {
  const body: Record<string, unknown> = {}
  const dropped: string[] = []
  for (const [name, value] of Object.entries(given ?? {})) {
    const ours = otherNames.get(name) ?? name
    if (!chatSettings.has(ours)) dropped.push(name)
    // If both names are given, that of chat completions wins.
    else if (isSet(value) && !(ours !== name && isSet(given?.[ours]))) body[ours] = value
  }
  return { body, dropped }
}

/** Null leaves the decision to the model's server. */
function isSet(value: unknown): boolean {
  return value !== undefined && value !== null
}

/** What a model call must request so that its answer can be trained. */
const recorded = { logprobs: true, return_token_ids: true }

/** A body of `POST /run`. */
export interface PostedRow {
  readonly body: RunRequestBody
  /** The fields that the protocol does not define, in the form of `parseExactJson`. */
  readonly row: Readonly<Record<string, unknown>>
}

/**
 * The row in the text of a body.
 *
 * @throws HttpRefusal with 422 when it is nested too deeply
 */
export function rowIn(text: string): PostedRow['row'] {
  const fields = unlessTooDeep(() => Object.entries(parseExactJson(text) as object))
  return Object.fromEntries(fields.filter(([name]) => !Object.hasOwn(runRequestSchema.shape, name)))
}

/** The rollout that a body of `POST /run` requests. */
export interface RunRequest {
  readonly request: RolloutRequest
  /** Sampling parameters that are omitted. */
  readonly dropped: readonly string[]
}

/** @throws HttpRefusal with 422 for a row without a prompt */
export function toRunRequest(
  { body, row }: PostedRow,
  traceHeaders: TraceHeaders,
  options: Pick<RunRouteOptions, 'agentTimeoutSeconds' | 'graderTimeoutSeconds'>,
): RunRequest {
  const { base_url: url, model, api_key: key, sampling_params: parameters, trace } = body
  const { messages, label, metadata } = unlessTooDeep(() => rowOf(row))
  const settings = toSamplingSettings(parameters)
  const { agentTimeoutSeconds = null, graderTimeoutSeconds = null } = options
  const request: RolloutRequest = {
    rolloutId: randomUUID(),
    initialMessages: messages,
    label,
    metadata,
    chatCompletionsUrl: url,
    apiKey: key ?? undefined,
    endpointNames: { url: 'base_url', key: 'api_key' },
    agentTimeoutSeconds,
    graderTimeoutSeconds,
    grade: true,
    traceHeaders,
    wire: {
      model: model.replace(/^openai\//, ''),
      body: trace === true ? { ...settings.body, ...recorded } : settings.body,
      // With a trace, the policy is shared by several callers: its 404 means that the model is unknown.
      ownRoute: trace !== true,
    },
  }
  return { request, dropped: settings.dropped }
}

function unlessTooDeep<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    const msg = isOsmosisError(error) ? error.message : 'is nested too deeply'
    throw new HttpRefusal(422, [{ type: 'value_error', loc: ['body'], msg }])
  }
}
