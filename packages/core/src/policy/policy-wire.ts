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
