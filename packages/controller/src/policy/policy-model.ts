/** One model call of a running rollout, as the policy endpoint received it. */
export interface PolicyRequest {
  readonly rolloutId: string
  /** The `x-sample-id` header; empty when the caller sent none. */
  readonly sampleId: string
  /** The parsed request body, in the wire's own snake_case. */
  readonly body: Readonly<Record<string, unknown>>
  /** By lower-case name, without `authorization`. */
  readonly headers: Readonly<Record<string, string>>
  /** Aborts when the caller disconnects or the rollout ends. */
  readonly signal: AbortSignal
}

/**
 * Answers the model calls of rollouts.
 *
 * `respond` returns a chat completions answer: one JSON object, or server-sent events when
 * `body.stream` is true. Its status, content type and bytes reach the caller unchanged. A thrown
 * error becomes a 500 that carries its message.
 */
export interface PolicyModel {
  readonly name: string
  respond(request: PolicyRequest): Promise<Response>
  /** Releases resources of the policy; called by its creator. */
  close?(): Promise<void>
}

/** Body of a refused or failed model call, in the form OpenAI clients understand. */
export interface PolicyErrorBody {
  readonly error: { readonly message: string; readonly type: string; readonly code: string }
}

/** Builds a {@link PolicyErrorBody}; `type` follows from the status as at OpenAI. */
export function policyErrorBody(status: number, code: string, message: string): PolicyErrorBody {
  const type = status >= 500 ? 'server_error' : 'invalid_request_error'
  return { error: { message, type, code } }
}
