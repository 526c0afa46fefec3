import { randomUUID } from 'node:crypto'

import { isOsmosisError } from '@osmosis/core'
import type { RolloutRequest } from '@osmosis/runtime'
import type { TraceHeaders } from '@osmosis/core/http'
import type { RunRequestBody } from '@osmosis/runtime/wire'

import { HttpRefusal } from '../http/http-refusal.ts'
import { rowOf, type TrainerRow } from './row-of.ts'
import type { RunRouteOptions } from './run-options.ts'
import { toSamplingSettings } from './sampling-settings.ts'

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
