import type { ChatCompletionRequest } from './chat-completion.ts'

/** The name that every request gives as its model unless its rollout has another. */
export const policyModelName = 'osmosis-rollout'

/** How the endpoint of a rollout's policy wants to be asked. */
export interface PolicyWire {
  /**
   * Whether it streams. False: every call asks for one JSON answer, which callers of
   * `PolicyClient.stream` get as one chunk. Default: true.
   */
  readonly stream?: boolean | undefined
  /** What requests give as their model. Default: `osmosis-rollout`. */
  readonly model?: string | undefined
  /**
   * Settings of the trainer, such as `temperature`, under their names in a request. They win over the
   * agent's; `messages`, `n`, `stream`, `stream_options` and `model` in here mean nothing.
   */
  readonly body?: Readonly<Record<string, unknown>> | undefined
  /**
   * Whether the URL is this rollout's own: 404 and 410 mean that the trainer withdrew the rollout, which
   * ends it with code `withdrawn`. Default: false.
   */
  readonly ownRoute?: boolean | undefined
}

/** How one endpoint is asked. */
export interface WireSettings extends PolicyWire {
  readonly stream: boolean
  readonly model: string
  /** Without what means nothing in it. */
  readonly body: Readonly<Record<string, unknown>>
}

const defaultSettings: WireSettings = { stream: true, model: policyModelName, body: {} }

export function wireSettings(asked: PolicyWire | undefined): WireSettings {
  if (asked === undefined) return defaultSettings
  const { stream, model, body = {}, ...wire } = asked
  const { stream_options: _, ...settings } = body
  return { ...wire, stream: stream ?? true, model: model ?? policyModelName, body: settings }
}

/** What the endpoint is to get beside the messages. */
export function wireRequest(
  { stream, model, body }: WireSettings,
  asked: ChatCompletionRequest,
): Omit<ChatCompletionRequest, 'messages'> {
  return {
    ...without(asked, body),
    ...body,
    // Not written; undefined is cheaper than to take it out.
    messages: undefined,
    n: asked.n,
    model,
    stream,
    stream_options: stream
      ? { ...(asked['stream_options'] as object | undefined), include_usage: true }
      : undefined,
  }
}

/** Two names of one setting: where the trainer says either, the agent says neither. */
const limits = ['max_tokens', 'max_completion_tokens']

function without(
  asked: ChatCompletionRequest,
  body: Readonly<Record<string, unknown>>,
): Partial<ChatCompletionRequest> {
  if (!limits.some((name) => name in body)) return asked
  return Object.fromEntries(Object.entries(asked).filter(([name]) => !limits.includes(name)))
}
