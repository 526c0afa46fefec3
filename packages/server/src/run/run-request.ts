import { randomUUID } from 'node:crypto'

import { isOsmosisError, OsmosisError, type PromptMessage } from '@osmosis/core'
import type { TraceHeaders } from '@osmosis/core/http'
import type { RolloutRequest } from '@osmosis/runtime'
import type { RunRequestBody } from '@osmosis/runtime/wire'

import { HttpRefusal } from '../http/http-refusal.ts'
import type { RunRouteOptions } from './run-options.ts'

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

/** Names that inference servers have for settings of chat completions. */
const otherNames = new Map([
  ['max_new_tokens', 'max_tokens'],
  ['min_new_tokens', 'min_tokens'],
  ['sampling_seed', 'seed'],
])

/**
 * What a trainer may say about sampling: settings of chat completions, and those that vLLM and SGLang
 * add to them. What is asked, and with which tools, is the agent's; one answer is all it reads.
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

/** The sampling parameters of a trainer, by what becomes of them. */
interface SamplingSettings {
  /** For the body of each model call. */
  readonly body: Readonly<Record<string, unknown>>
  /** Names of those that chat completions do not have. */
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
    // The name of chat completions counts where both are given.
    else if (isSaid(value) && !(ours !== name && isSaid(given?.[ours]))) body[ours] = value
  }
  return { body, dropped }
}

/** Null means that the server of the model decides. */
function isSaid(value: unknown): boolean {
  return value !== undefined && value !== null
}

/** What a model call has to ask for so that its answer can be trained. */
const recorded = { logprobs: true, return_token_ids: true }

/** The rollout that a body of `POST /run` asks for. */
export interface RunRequest {
  readonly request: RolloutRequest
  /** What is in the body beside what the protocol names. */
  readonly row: Readonly<Record<string, unknown>>
  /** Sampling parameters that are left out. */
  readonly dropped: readonly string[]
}

/** @throws HttpRefusal with 422 for a row without a prompt */
export function toRunRequest(
  body: RunRequestBody,
  traceHeaders: TraceHeaders,
  options: Pick<RunRouteOptions, 'agentTimeoutSeconds' | 'graderTimeoutSeconds'>,
): RunRequest {
  const {
    base_url: url,
    model,
    api_key: key,
    sampling_params: parameters,
    max_seq_len: _length,
    session_server_instance_id: _instance,
    session_server_id: _server,
    agent_kwargs: _agent,
    trace,
    ...row
  } = body
  const { messages, label, metadata } = readRow(row)
  const settings = toSamplingSettings(parameters)
  const { agentTimeoutSeconds = null, graderTimeoutSeconds = null } = options
  const request: RolloutRequest = {
    rolloutId: randomUUID(),
    initialMessages: messages,
    label,
    metadata,
    chatCompletionsUrl: url,
    apiKey: key ?? undefined,
    agentTimeoutSeconds,
    graderTimeoutSeconds,
    grade: true,
    traceHeaders,
    wire: {
      model: model.replace(/^openai\//, ''),
      body: trace === true ? { ...settings.body, ...recorded } : settings.body,
      // Who asks for a trace has a policy that others ask as well: its 404 is about the model.
      ownRoute: trace !== true,
    },
  }
  return { request, row, dropped: settings.dropped }
}

function readRow(row: Readonly<Record<string, unknown>>): TrainerRow {
  try {
    return rowOf(row)
  } catch (error) {
    const msg = isOsmosisError(error) ? error.message : 'is nested too deeply'
    throw new HttpRefusal(422, [{ type: 'value_error', loc: ['body'], msg }])
  }
}
