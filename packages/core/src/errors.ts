/** Coarse cause of a failed rollout; `err_category` on the wire. */
export type ErrorCategory = 'timeout' | 'validation_error' | 'http_error' | 'agent_error'

/**
 * Every code of an `OsmosisError`, with the category of a rollout that ends with it. Each comment says what happened and what to do:
 * docs/guides/troubleshooting.md shows them under the headings of this table, and `node scripts/error-tables.ts --update` writes it. Links
 * lead to the site, where editors and the API reference show these comments.
 */
export const errorCategories = {
  // In a workflow

  /** An agent, a session or a model was used outside of a rollout. Create it inside `run()`. */
  no_rollout_context: 'validation_error',
  /**
   * An agent, a model or a session of one rollout was used in another one. Create it inside `run()`, and
   * [bind the jobs of queues](https://osmosis-ai.github.io/osmosis-sdk-typescript/guides/concurrency#queues-of-your-own).
   */
  wrong_rollout_context: 'validation_error',
  /** `OsmosisRolloutModel` itself was called. Give it to an Osmosis agent, which knows its sample. */
  placeholder_model: 'validation_error',
  /** A model call belongs to no session, so it has no sample. Pass an `OsmosisMemorySession` to the SDK's `run()`. */
  missing_session: 'validation_error',
  /** A run of the framework stopped for an approval that the program did not give. Answer it inside `run()`, and resume the run. */
  pending_approval: 'validation_error',
  /** Two agents or sessions have one name, or `run()` returns messages although an adapter records them. Give each its own name. */
  duplicate_sample: 'validation_error',
  /** A rollout or sample id cannot be sent in a header or a path. Use 1 to 256 printable ASCII characters. */
  invalid_id: 'validation_error',
  /** The workflow ended without a conversation with the policy. Look for a missing `await`, or an agent that has a model of its own. */
  no_samples: 'validation_error',
  /** User code called `process.exit`. Throw an error instead. */
  user_code_exit: 'agent_error',
  /**
   * User code threw in a callback, or left a rejection unhandled. Await everything, and catch errors in timers, emitters and sockets.
   */
  stray_error: 'agent_error',
  /** The worker process of the rollout ended or stopped answering. See [how workers end](https://osmosis-ai.github.io/osmosis-sdk-typescript/operating/serving#workers). */
  worker_lost: 'agent_error',
  /** A model call was still running when `run()` returned, or began after it. Await everything, and read streams to their end. */
  rollout_ended: 'agent_error',
  /** A tool call of an agent loop could not be parsed or executed. The policy sees the error as the tool's result. */
  tool_failed: 'agent_error',
  /** A deadline of the rollout passed. Raise `agent_workflow_timeout_s` or `grader_timeout_s`, or make the agent faster. */
  timeout: 'timeout',
  /** A limit of [`rolloutLimits`](https://osmosis-ai.github.io/osmosis-sdk-typescript/guides/workflows#limits) ended the rollout before the policy had answered once. Raise it. */
  limit_reached: 'agent_error',
  /** The rollout was cancelled, by its caller or by Ctrl-C. */
  cancelled: 'agent_error',
  /** The trainer withdrew the rollout: its own policy route answered 404 or 410. */
  withdrawn: 'agent_error',
  /** The caller did not fetch [the result](https://osmosis-ai.github.io/osmosis-sdk-typescript/operating/serving#leased-results) in time. Poll more often, or raise the lease. */
  lease_expired: 'agent_error',

  // In a grader

  /** A reward names a sample that does not exist. Use the ids of `ctx.samples`. */
  unknown_sample: 'validation_error',
  /** A reward is not a finite number. Look for a division by zero, or for a text. */
  invalid_reward: 'validation_error',
  /** The grader left a sample without a reward. Reward every sample, or take it out with `ctx.removeSample(id)`. */
  missing_reward: 'validation_error',
  /**
   * A grader reads `ctx.output`, and `run()` returned nothing, or something that is not JSON data.
   * [Return the object](https://osmosis-ai.github.io/osmosis-sdk-typescript/guides/graders#structured-answers).
   */
  no_output: 'agent_error',
  /**
   * There is nothing to grade with: the entrypoint has no grader, the row has neither an answer nor metadata in
   * [the dataset](https://osmosis-ai.github.io/osmosis-sdk-typescript/guides/datasets), or the rollout has no complete [group](https://osmosis-ai.github.io/osmosis-sdk-typescript/guides/graders#all-attempts-together).
   */
  not_graded: 'validation_error',
  /** [A judge](https://osmosis-ai.github.io/osmosis-sdk-typescript/guides/models#judges) gave no valid verdict, although it was asked again. The message has its answer. */
  judge_failed: 'http_error',

  // Files and settings

  /** A file, a flag, a variable or an option is invalid. The message names it; see [all keys](https://osmosis-ai.github.io/osmosis-sdk-typescript/reference/configuration). */
  invalid_config: 'validation_error',
  /** A module cannot be loaded, or does not export [a workflow](https://osmosis-ai.github.io/osmosis-sdk-typescript/guides/workflows). */
  invalid_entrypoint: 'validation_error',
  /** Rows cannot be read, or do not match the workflow. The message has their lines. */
  invalid_dataset: 'validation_error',
  /** A request, a prompt or an argument cannot be sent. The message names the part. */
  invalid_request: 'validation_error',
  /** Results could not be written. Free some space, and run the same command again: nothing that was stored is lost. */
  storage_error: 'agent_error',
  /** Another process writes to the run, or has taken it over. Wait until it has ended. */
  run_locked: 'agent_error',
  /** Files of a run are missing or were changed. The message has the file and the line. */
  damaged_run: 'agent_error',
  /**
   * The rollouts of a training's step could not all be run. The message says why. When that is mended, start the same training again:
   * it continues with them.
   */
  rollouts_incomplete: 'agent_error',
  /** The program that trains the policy failed. The message has its last lines, and `learner.log` of `train local` has all. */
  learner_error: 'agent_error',
  /**
   * The trainer refused an update, because the learner's logprobs are not the recorded ones.
   * [Check](https://osmosis-ai.github.io/osmosis-sdk-typescript/training/local#reading-a-step) template, temperature and precision.
   */
  training_drift: 'agent_error',

  // The policy

  /**
   * The policy answered with an error status. 401 and 403 are about the key, 402 about the account, 404 about the model or the URL; 429 and
   * 5xx were retried. The message has the server's words, and names the field or the flag of the key or the URL. A gateway may refuse a key
   * with 400 or 500, as LiteLLM without a database does (`No connected db.`): this is not retried.
   */
  policy_http_error: 'http_error',
  /**
   * The policy did not answer [for 90 seconds](https://osmosis-ai.github.io/osmosis-sdk-typescript/guides/troubleshooting#a-policy-that-is-away). Check that it runs, and its address: most
   * end in `/v1`.
   */
  policy_unreachable: 'http_error',
  /** This process may not connect to that address. Allow it with [`--allow-host`](https://osmosis-ai.github.io/osmosis-sdk-typescript/operating/serving#where-a-server-connects-to). */
  egress_refused: 'http_error',
  /** An answer of the policy broke off, was malformed, or reported an error. Look at the log of its server. */
  policy_stream_error: 'http_error',

  // Servers, controllers and the platform

  /** A bearer key is missing or wrong. Give both sides the same `OSMOSIS_ROLLOUT_SERVER_API_KEY`. */
  unauthorized: 'http_error',
  /** Another process listens on the port. Take another `--port`; 0 takes a free one. */
  port_in_use: 'agent_error',
  /** The server stopped before the rollout ended. Run it again. */
  server_shutdown: 'agent_error',
  /** The other side broke its protocol, or did not answer. Compare the versions of both; see [serving](https://osmosis-ai.github.io/osmosis-sdk-typescript/operating/serving). */
  protocol_error: 'http_error',
  /** The Redis of a queue does not answer, or its settings are not accepted. Requests get 503 until it is back. */
  queue_unavailable: 'http_error',
  /** The hosted platform did not answer. Try again. */
  platform_unreachable: 'http_error',
} as const satisfies Readonly<Record<string, ErrorCategory>>

/** What went wrong, as a stable word. Codes are API; messages may change. `docs/guides/troubleshooting.md` explains each. */
export type OsmosisErrorCode = keyof typeof errorCategories

const brand = Symbol.for('osmosis.error')

/** Every error that this SDK throws on purpose. Misuse throws `TypeError` and `RangeError`. */
export class OsmosisError extends Error {
  override readonly name: string = 'OsmosisError'
  readonly [brand] = true
  readonly code: OsmosisErrorCode
  /** HTTP status of the answer, if there was one. */
  readonly status: number | undefined
  /** How long the answer asks to wait before the next attempt. Milliseconds. */
  readonly retryAfterMs: number | undefined
  /** What `x-should-retry` of the answer says, else false for a 500 about the key; undefined for others without that header. */
  readonly shouldRetry: boolean | undefined
  /** The message in the body of the answer: what the endpoint itself says. */
  readonly endpointMessage: string | undefined
  /** The `code` in the body of the answer, such as `context_length_exceeded`. */
  readonly endpointCode: string | undefined
  /** The `type` in the body of the answer, such as `invalid_request_error`. */
  readonly endpointType: string | undefined

  constructor(
    code: OsmosisErrorCode,
    message: string,
    options: {
      cause?: unknown
      status?: number
      retryAfterMs?: number | undefined
      shouldRetry?: boolean | undefined
      endpointMessage?: string | undefined
      endpointCode?: string | undefined
      endpointType?: string | undefined
    } = {},
  ) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.code = code
    this.status = options.status
    this.retryAfterMs = options.retryAfterMs
    this.shouldRetry = options.shouldRetry
    this.endpointMessage = options.endpointMessage
    this.endpointCode = options.endpointCode
    this.endpointType = options.endpointType
  }
}

/** True for an {@link OsmosisError} of this or any other installed copy of the package. */
export function isOsmosisError(value: unknown): value is OsmosisError {
  try {
    return typeof value === 'object' && value !== null && brand in value
  } catch {
    // A proxy of user code may throw.
    return false
  }
}

const validationErrorNames = new Set([
  'TypeError',
  'RangeError',
  'SyntaxError',
  'AssertionError',
  'ZodError',
  '$ZodError',
  'ValidationError',
])

// Codes of node:net, node:dns and undici for a failed connection.
const networkCode = /^(ECONN|EPIPE$|ENOTFOUND$|EAI_|EHOSTUNREACH$|ENETUNREACH$|ETIMEDOUT$|UND_ERR_)/

/** Another installed copy of the package may have other codes. */
function categoryOf({ code }: OsmosisError): ErrorCategory {
  return Object.hasOwn(errorCategories, code) ? errorCategories[code] : 'agent_error'
}

/**
 * The category of an error from user code. Frameworks wrap the errors of model calls, so the causes
 * of an error count as well.
 */
export function errorCategory(error: unknown): ErrorCategory {
  try {
    const chain = causes(error)
    for (const link of chain) {
      if (isOsmosisError(link)) return categoryOf(link)
      if (isOfPolicy(link)) return 'http_error'
      if (link.name === 'TimeoutError') return 'timeout'
      if (isHttpError(link)) return 'http_error'
    }
    // The outermost error only: a TypeError among its causes is not why the workflow failed.
    const name = chain[0]?.name ?? ''
    return validationErrorNames.has(name) ? 'validation_error' : 'agent_error'
  } catch {
    // Getters and proxies of user code may throw.
    return 'agent_error'
  }
}

/** `error.message`, or the class name when that is empty; other thrown values as text. */
export function errorMessage(error: unknown): string {
  try {
    if (!(error instanceof Error)) return String(error)
    const { message } = error as { message: unknown }
    return typeof message === 'string' && message !== '' ? message : error.constructor.name
  } catch {
    // `String(Object.create(null))` throws.
    return 'something without a message was thrown'
  }
}

/**
 * Whether a client of a vendor made an error of one that its policy failed with: they read its code in an answer that was
 * served to them, which may have no status because it broke off. OpenAI's have the code themselves, Anthropic's the body.
 */
export function isOfPolicy(error: Error): boolean {
  const { code, error: body } = error as { code?: unknown; error?: { error?: { code?: unknown } } }
  return [code, body?.error?.code].some(
    (one) =>
      typeof one === 'string' && one.startsWith('policy_') && Object.hasOwn(errorCategories, one),
  )
}

function isHttpError(error: Error): boolean {
  const { status, statusCode, code } = error as {
    status?: unknown
    statusCode?: unknown
    code?: unknown
  }
  if ([status, statusCode].some((value) => typeof value === 'number' && value >= 400)) return true
  return typeof code === 'string' && networkCode.test(code)
}

/** The error and its chain of causes, as far as they can be read: getters and proxies of user code may throw. */
export function causes(error: unknown): Error[] {
  const chain: Error[] = []
  try {
    // No framework nests eight errors; the limit also ends a cycle.
    for (let link = error; link instanceof Error && chain.length < 8; link = link.cause) {
      chain.push(link)
    }
  } catch {
    // What was read so far is known.
  }
  return chain
}
