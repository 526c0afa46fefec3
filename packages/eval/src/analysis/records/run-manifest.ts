/** A row of a run. Its place in the list is its `row_index`. */
export interface RunRow {
  /** The row in other datasets: its `id` column, else a hash of prompt, label and metadata. */
  readonly key: string
  /** Position in the dataset file, from 0. */
  readonly source_row: number
  /** How its last message begins, on one line; missing in older runs. */
  readonly question?: string
  /** Short texts of its metadata by which rows can be grouped, e.g. `{ task: 'refund' }`. */
  readonly facets?: Readonly<Record<string, string>>
}

/**
 * The inputs of a run, by groups. A run resumes only with equal inputs; its rows and attempts may be
 * extended.
 */
export interface RunInputs {
  readonly model: {
    readonly name: string
    /** URL of the endpoint, without user and password; null for a module. */
    readonly base_url: string | null
    /** Parameters of the model calls, e.g. `{ temperature: 0.7 }`. */
    readonly params: Readonly<Record<string, unknown>>
  }
  readonly dataset: {
    /** As the config names it. */
    readonly name: string
    /** Of the bytes of the file. */
    readonly sha256: string
    /** Its columns that have other names: `prompt`, `label`, `system`, `metadata`. Default: none. */
    readonly columns?: Readonly<Record<string, string | readonly string[] | undefined>>
  }
  readonly code: {
    readonly rollout: string
    readonly kind: 'workflow' | 'agent-loop'
    /** Relative to the workspace. */
    readonly entrypoint: string
    /** Of the sources of the rollout, of policy modules and eval functions, and of what these import by relative names. */
    readonly sha256: string
    /** Names of the eval functions. */
    readonly scorers: readonly string[]
  }
  /** What the config sets, by its names. */
  readonly env: Readonly<Record<string, string>>
  /** Fields of the workflow's config that have other values than in its code. Default: none. */
  readonly workflow?: Readonly<Record<string, unknown>>
  /** Names only: a new key does not change the run. */
  readonly secrets: readonly string[]
  readonly timeouts: {
    /** Null is unbounded. */
    readonly agent_seconds: number | null
    /** Null is unbounded. */
    readonly grader_seconds: number | null
    /** Of an agent loop; null for the server's default. */
    readonly max_turns: number | null
  }
}

/** `manifest.json`: the inputs and rows of a run. Written when it starts and when it is extended. */
export interface RunManifest {
  readonly schema_version: 1
  /** 32 hexadecimal digits. */
  readonly local_run_id: string
  readonly run_name: string
  /** ISO 8601, UTC. */
  readonly created_at: string
  readonly inputs: RunInputs
  /** Attempts per row and model. */
  readonly n: number
  /** The least reward, or score, of an item that passes. Not an input: figures read it from here. */
  readonly pass_threshold: number
  /** Where the run came from; only for display. */
  readonly provenance: {
    readonly sdk_version: string
    readonly node_version: string
    /** Relative to the workspace; null for a run without one. */
    readonly config: string | null
    /** The folder to which file names were relative; absolute. */
    readonly root?: string
    /** The arguments of `osmosis` that resume the run, and the folder to run them in; absolute. */
    readonly resume?: { readonly arguments: readonly string[]; readonly folder: string }
    /** SHA-256 of each part of the code: `code` of the rollout, `policy module`, `eval functions`. Default: not known. */
    readonly digests?: Readonly<Record<string, string>> | undefined
    /** The commit of the workspace, and whether files were changed; null outside of git. */
    readonly git: { readonly commit: string; readonly dirty: boolean } | null
  }
  readonly rows: readonly RunRow[]
}
