import type { PolicyClient } from '@osmosis/core'

/** A policy under a URL of its own, see `createPolicyProxy`. */
export interface PolicyProxy extends AsyncDisposable {
  /** Base URL of OpenAI's APIs, with `/v1`. It contains a secret, so that only its users can call. */
  readonly url: string
  /** Base URL of Anthropic's API, without `/v1`. */
  readonly anthropicUrl: string
  /**
   * The same without the secret: `<origin>/v1` and `<origin>` are base URLs for programs that show theirs, such as Codex
   * on its command line. They send `apiKey`.
   */
  readonly origin: string
  /** The secret as an API key. It belongs into the environment of a program, not into its arguments. */
  readonly apiKey: string
  /**
   * Environment variables for a child process, or for an SDK that starts one: the base URL without the secret, and `apiKey`. For
   * Claude Code also the model, and switches against telemetry, updates and retries. They are all that it should get
   * beside `PATH`: variables of the host may have keys and other base URLs.
   *
   * @param api - `anthropic`: Claude Code and Anthropic's SDKs; `openai`: Codex and OpenAI's SDKs
   * @param options - `home`: a folder of the rollout, created if needed: `HOME`, and where these programs store
   * their settings. `maxOutputTokens`: the `max_tokens` of Claude Code's calls. Its own 32,000 are refused by servers
   * whose context has not so much room; Codex sends none
   */
  env(
    api: 'anthropic' | 'openai',
    options?: { readonly home?: string; readonly maxOutputTokens?: number },
  ): Record<string, string>
  /** Ends the calls in progress. Has no effect the second time. */
  close(): Promise<void>
}

/** A model call that arrived at a {@link PolicyProxy}. */
export interface PolicyProxyCall {
  readonly api: 'chat' | 'messages' | 'responses'
  /** Under names in lower case. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** As the client sent it. */
  readonly body: Readonly<Record<string, unknown>>
}

/** What a call through a {@link PolicyProxy} is for. */
export interface PolicyProxyUse {
  /** Default: `agent`. */
  readonly purpose?: string | undefined
  /** Whether its answer is training data. Default: true. */
  readonly trainable?: boolean | undefined
  /** The policy of another sample, to which the call belongs. Default: the policy of the proxy. */
  readonly policy?: Pick<PolicyClient, 'fetch'> | undefined
}

/** Options of `createPolicyProxy`. */
export interface PolicyProxyOptions {
  /**
   * What a call is for. Undefined: as the proxy decides. Calls of Claude Code and Codex with the headers of a
   * sub-agent have the purpose `subagent` and are training data beside the conversation of the agent; their titles
   * (`title`) and what Codex names otherwise than `turn`, such as `compaction`, are none.
   */
  readonly use?: ((call: PolicyProxyCall) => PolicyProxyUse | undefined) | undefined
  /** Largest body of a request, as it arrives and when it is unpacked. Bytes; default 64 MiB. */
  readonly maxBodyBytes?: number | undefined
}
