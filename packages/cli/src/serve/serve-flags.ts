/** Flags of `osmosis serve`. */
export interface ServeFlags {
  port?: number
  host: string
  apiKey?: string
  /** False with `--no-auth`. */
  auth: boolean
  /** An agent loop, `<file>:<export>`. */
  module?: string
  /** False with `--no-validate`. */
  validate: boolean
  /** Folder for the traces of an agent loop. */
  log?: string
  /** Folder for results that are not acknowledged. */
  outbox?: string
  /** Tells the platform where the agent loop is served. */
  register?: boolean
  /** Name or address under which the platform reaches the server. */
  publicHost?: string
  publicPort?: number
}
