/** Where a service that speaks the Tinker API is. */
export interface TinkerAddress {
  /** Base URL, without `/api/v1`. */
  readonly url: string
  /** Sent as `X-API-Key`; open servers take any. Default: `tml-none`. */
  readonly apiKey?: string | undefined
  /** How long one request may wait for its result. Milliseconds; default 30 minutes. */
  readonly patienceMs?: number | undefined
  /**
   * The form of samples and of the data of updates: `protobuf`, as the official SDK speaks it since version 0.25, or
   * `json`, which Open-RL takes. Default: `json`, and `protobuf` from when the service refuses that (415).
   */
  readonly wire?: 'json' | 'protobuf' | undefined
}

/** How a policy is trained on a service that speaks the Tinker API. */
export interface TinkerLearnerOptions extends TinkerAddress {
  /** The base model, as the service names it. */
  readonly baseModel: string
  /**
   * Folder with the tokenizer and chat template of that model. Default: what the service names, or the base model, where that
   * is a folder.
   */
  readonly tokenizer?: string | undefined
  /** Rank of the LoRA adapters. Default: 16. */
  readonly loraRank?: number | undefined
  readonly seed?: number | undefined
  /** Gives up opening. */
  readonly signal?: AbortSignal | undefined
  /** Tokens of a conversation. Default: 8192. */
  readonly maxLength?: number | undefined
  /**
   * Whether the service adds up the losses of all tokens (hosted, Open-RL, SkyRL's torch backend), or takes the mean of each
   * sequence and then of all (SkyRL's jax backend). Default: `sum`.
   */
  readonly lossReduction?: 'sum' | 'sequence_mean' | undefined
  /**
   * Whose names settings have: those of the official SDK, which SkyRL reads as well, or Open-RL's for clipping, dropout and the
   * optimizer in checkpoints. Default: `tinker`.
   */
  readonly dialect?: 'tinker' | 'open-rl' | undefined
}

/** What a training used of the service, the part before a resume included. */
export interface TinkerUsage {
  readonly promptTokens: number
  readonly sampledTokens: number
  /** Tokens of sequences in updates, those of prompts included. */
  readonly trainedTokens: number
}
