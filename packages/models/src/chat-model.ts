/** What a {@link ChatModel} is asked; a model call of a rollout has more. */
export interface ChatModelRequest {
  /** A chat completions request, in the wire's own snake_case. Its `model` means nothing. */
  readonly body: Readonly<Record<string, unknown>>
  readonly signal: AbortSignal
}

/**
 * Whatever answers chat completions requests. Every one of them can be the policy of an evaluation
 * (`PolicyModel` of `@osmosis/controller`), and most policies can be asked like this.
 *
 * `respond` returns one JSON object, or server-sent events when `body.stream` is true; what went
 * wrong is an answer with an error status and `{ error: { message, type, code } }`. Aborting rejects
 * with the reason of the signal.
 */
export interface ChatModel {
  readonly name: string
  respond(request: ChatModelRequest): Promise<Response>
  /** Frees what the model holds open; called by the code that made it. Default: nothing is held. */
  close?(): Promise<void>
}

/** What a model answers that cannot, in the form OpenAI clients understand. */
export function refusal(
  status: number,
  code: string,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): Response {
  const type = status >= 500 ? 'server_error' : 'invalid_request_error'
  return Response.json({ error: { message, type, code } }, { status, headers: { ...headers } })
}
