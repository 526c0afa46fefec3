/** What every adapter guarantees for its framework. The sentences are the titles of the tests. */
export const contractRules = {
  'gives-sample': 'an agent that called the policy is a sample under its name',
  'omits-agents-without-calls': 'an agent without a model call gives no sample',
  'names-agents-without-calls': 'a rollout whose agents made no model call fails and names them',
  'fails-unawaited-runs': 'a run that is not awaited never succeeds without its last answer',
  'carries-identity': 'model calls carry rollout, sample and key, name the policy and stream',
  'keeps-agents-apart': 'two parallel agents never mix their ids',
  'stays-in-its-rollout':
    'an agent made in one rollout calls nobody in the async context of another that has its own',
  'refuses-duplicates': 'the same name twice in a rollout is an error that names it',
  'refuses-outside': 'outside a rollout the placeholder throws and says what to do',
  'serves-users':
    'an agent with a fallback uses it outside of rollouts, and inside the policy alone',
  'sends-equal-requests':
    'outside of rollouts, an agent with a fallback sends what it sends with that model alone',
  'records-conversation': 'the sample is the conversation that the policy had',
  'echoes-arguments': 'tool arguments return to the policy byte for byte',
  'echoes-text-beside-calls': 'text beside tool calls returns in the same turn',
  'echoes-parallel-calls': 'three tool calls in one turn return in one turn',
  'names-calls': 'a tool call without an id gets one id that everybody sees',
  'echoes-reasoning': 'the thinking of the policy returns with its turn',
  'empties-malformed-arguments': 'malformed arguments are sent as {} and recorded unchanged',
  'separates-repeated-ids': 'tool calls with the id of an earlier call have results of their own',
  'sees-recorded-calls': 'an agent sees the calls that are recorded, however a server streams them',
  'never-runs-cut-calls': 'a tool call that the token limit cut off never runs',
  'runs-whole-calls': 'a tool call that is whole runs, also if the token limit ended the answer',
  'returns-names': 'a name that no tool has goes back word for word, with an error as its result',
  'orders-results': 'results return in the order of their calls, also where a tool is unknown',
  'runs-without-arguments': 'a tool without parameters runs when the policy gives no arguments',
  'logs-tool-errors': 'what a tool throws is in the log of its rollout, with its stack',
  'grades-refusals': 'a refusal is graded',
  'grades-turn-limits': 'a run that the framework ends after too many turns is graded',
  'grades-wrong-output': 'an answer without the structure that is due is graded',
  'lists-calls': 'the tool calls of a sample are listed in one form, with their results',
  'reads-objects': 'the object that a framework reads from an answer is read from the sample, too',
  'blames-nobody-for-others':
    'what another model does wrong is never graded as a fault of the policy',
  'retries-before-answer': 'a 503 before the answer is retried',
  'refused-once': 'a 401 is not retried and fails the run as http_error',
  'stays-within-egress': 'an address that the egress policy forbids is never reached',
  'fails-hidden-failures':
    'a model call that fails inside a tool fails the run, also if the framework makes a text of the error',
  'refuses-cut-answers': 'a broken answer is not retried, fails the run and earns no reward',
  'keeps-failed-runs': 'a failed run yields the conversation so far',
  'aborts-for-real': 'an aborted run closes the socket and yields the conversation so far',
  'rewards-no-left-answer':
    'an only answer that was aborted or left before its end earns no reward',
  'ends-at-deadline': 'the deadline ends a call that hangs',
  'ends-at-limit': 'a limit of the rollout ends it, and the conversation so far is graded',
  'ends-at-context': 'a conversation that no longer fits the context ends, and is graded so far',
  'never-crosses': 'many concurrent rollouts of two agents never mix',
} as const

/** Id of a rule of the contract. */
export type ContractRule = keyof typeof contractRules

/** A tool the way every framework has it in some form. */
export interface ContractTool {
  readonly name: string
  readonly description: string
  /** JSON schema of an object. What the policy sends may violate it; do not make it strict. */
  readonly parameters: Readonly<Record<string, unknown>>
  readonly execute: (input: unknown) => string | Promise<string>
}

/** One run of an agent. */
export interface ContractRun {
  /** Name of the sample. */
  readonly name: string
  /** The only message of the user. */
  readonly prompt: string
  readonly tools?: readonly ContractTool[]
  /** The user's own signal, to be passed to the framework in its own way. */
  readonly signal?: AbortSignal
}

/** What an adapter brings to {@link runAdapterContract}. */
export interface AdapterUnderTest {
  /**
   * Builds an agent inside the current rollout, as a user of the framework would, and runs it to
   * its end; a run may need ten model calls. Resolves with its last text; rejects with
   * what the framework throws.
   */
  run(run: ContractRun): Promise<string>
  /**
   * As `run`, with the framework's own limit of two turns.
   *
   * @param url - of chat completions: a model of the framework's own answers instead of the policy. Default: the policy does
   */
  runTwoTurns?(run: ContractRun, url?: string): Promise<unknown>
  /**
   * As `run`, with a structured output of the framework: an object with the number `sum`, with which it resolves.
   *
   * @param url - as of `runTwoTurns`
   */
  runStructured?(run: ContractRun, url?: string): Promise<unknown>
  /**
   * As `run`, with a model of the framework's own for outside of rollouts: chat completions at `url`. Where the adapter
   * takes a function as fallback, give one.
   */
  runWithFallback?(run: ContractRun, url: string): Promise<string>
  /** The same with that model alone, and the framework's own agent. */
  runOwnModel?(run: ContractRun, url: string): Promise<string>
  /**
   * As `run`, with a stream of the framework that is left at the first part of the answer, as by `break`. For frameworks
   * that then stop reading: others read on, and the answer is recorded.
   */
  leaveStream?(run: ContractRun): Promise<unknown>
  /** Makes an agent of this name in the current rollout, and returns a function that runs it. */
  prepare?(name: string): () => Promise<unknown>
  /** Makes an agent (or session) of this name in the current rollout, without a model call. */
  construct(name: string): unknown
  /** Uses the placeholder model outside of a rollout, as a new user may do. */
  callPlaceholder(): unknown
  /** Rules that the framework cannot follow, each with the reason; their cases are skipped. */
  readonly exempt?: Readonly<Partial<Record<ContractRule, string>>>
  /** Whether the policy of the suite streams. Default: true. */
  readonly streams?: boolean
  /** How many rollouts of two agents run at once to prove `never-crosses`. Default: 400. */
  readonly concurrentRollouts?: number
}

/** The test of one rule: resolves when the adapter follows it. */
export type ContractCase = (adapter: AdapterUnderTest) => Promise<void>
