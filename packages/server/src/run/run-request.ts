import { randomUUID } from 'node:crypto'

import { isOsmosisError } from '@osmosis/core'
import type { TraceHeaders } from '@osmosis/core/http'
import type { RolloutRequest } from '@osmosis/protocol'
import { parseExactJson, type RunRequestBody, runRequestSchema } from '@osmosis/protocol/wire'

import { HttpRefusal } from '../http/server-route.ts'
import type { RowGroupOptions } from './row-groups.ts'
import type { RunAnswerRules } from './run-answer.ts'
import { toSamplingSettings } from './sampling-settings.ts'
import { rowOf } from './trainer-row.ts'

/** Options of `POST /run`. */
export interface RunRouteOptions extends RunAnswerRules, RowGroupOptions {
  /** Time limit of the workflow. Seconds; default: as long as the trainer waits. */
  agentTimeoutSeconds?: number | undefined
  /** Time limit of the grader. Seconds; default: as long as the trainer waits. */
  graderTimeoutSeconds?: number | undefined
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
