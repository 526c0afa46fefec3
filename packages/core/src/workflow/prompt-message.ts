/**
 * One message of a dataset row's prompt, in chat completions form: a `role` and a `content`.
 * Loosely typed on purpose: it has to be assignable to every framework's own message type, so that
 * `ctx.prompt` can be handed on as it is.
 */
export interface PromptMessage {
  // oxlint-disable-next-line typescript/no-explicit-any
  role: any
  // oxlint-disable-next-line typescript/no-explicit-any
  content: any
  // oxlint-disable-next-line typescript/no-explicit-any
  [key: string]: any
}
