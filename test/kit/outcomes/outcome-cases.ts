import { expect } from 'vitest'

import { unconstructed, type OutcomeEntrypoint, type Played } from './outcome-entrypoint.ts'

/** How the workflow or the grading of a rollout ended, as its callback reports it. */
export interface End {
  readonly status: 'success' | 'failure'
  readonly err_message: unknown
  readonly err_category: string | null
}

/** The body of a grader callback, without the id of the rollout. */
export interface Graded extends End {
  readonly samples: Readonly<Record<string, Readonly<Record<string, unknown>>>>
}

/** What happens to the server while a rollout waits for its policy. */
type Incident = 'cancelled' | 'shut down' | 'killed and started again'

/** One row of the outcome table: a rollout, and what its caller receives. */
export interface OutcomeCase {
  readonly situation: string
  readonly does?: Played
  readonly request?: Readonly<Record<string, unknown>>
  /** How its id begins. Default: the number of the row. */
  readonly idPrefix?: string
  readonly entrypoint?: OutcomeEntrypoint
  readonly meanwhile?: Incident
  /** User code ends its process, so the row is for backends that have other processes. */
  readonly endsProcess?: true
  readonly completion: End
  /** Undefined when no grading was requested. */
  readonly grader?: Graded
  /** Why the rollout was lost: in its last callback, and in the first one of a workflow that failed. */
  readonly lostWith?: string
  /** Where the result of a lease differs from the last callback. */
  readonly leased?: Partial<Omit<End, 'status'>> & { readonly status: End['status'] | 'cancelled' }
}

const succeeded: End = { status: 'success', err_message: null, err_category: null }

function failure(err_message: unknown, err_category: string): End {
  return { status: 'failure', err_message, err_category }
}

/** A workflow that failed, and so does its grading. */
function failed(
  err_message: unknown,
  err_category: string,
): Pick<OutcomeCase, 'completion' | 'grader'> {
  const end = failure(err_message, err_category)
  return { completion: end, grader: { ...end, samples: {} } }
}

const answered = [
  { role: 'user', content: 'Is it?' },
  { role: 'assistant', content: 'yes' },
]

function sample(changes: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    label: null,
    reward: 1,
    remove_sample: false,
    messages: answered,
    metrics: {},
    extra_fields: {},
    ...changes,
  }
}

/** A rollout that was graded. */
function graded(
  samples: Graded['samples'] = { main: sample() },
): Pick<OutcomeCase, 'completion' | 'grader'> {
  return { completion: succeeded, grader: { ...succeeded, samples } }
}

/** The workflow succeeded, and the grading failed. */
function ungraded(
  err_message: unknown,
  err_category: string,
  samples: Graded['samples'] = { main: sample({ reward: null }) },
): Pick<OutcomeCase, 'completion' | 'grader'> {
  return { completion: succeeded, grader: { ...failure(err_message, err_category), samples } }
}

/** What user code threw, as callers receive it. */
function thrown(by: string, text: string): unknown {
  const [who, what] = [by, text].map(asPattern)
  return expect.stringMatching(
    new RegExp(`^thrown by ${who} at \\S*/outcome-\\w+\\.ts:\\d+: ${what}$`),
  )
}

function asPattern(text: string): string {
  return text.replaceAll(/[.()]/g, String.raw`\$&`)
}

function withPlace(text: string): unknown {
  const pattern = asPattern(text)
  return expect.stringMatching(new RegExp(`^${pattern} \\(at .*outcome-scripts\\.ts:\\d+:\\d+\\)$`))
}

const twin =
  'A sample named "twin" is already registered in this rollout. Give every agent or session of the workflow a name of its own, also those that a tool makes anew for each call.'
const killed = 'the worker process was killed by SIGKILL, which the server did not send'
const restarted =
  'the rollout server restarted while the rollout was running; run it again under a new id'

/** The outcome table, for every delivery and every backend. */
export const outcomeCases: readonly OutcomeCase[] = [
  { situation: 'graded', ...graded() },
  {
    situation: 'graded, with two samples',
    does: { workflow: 'asks twice' },
    ...graded({ a: sample(), b: sample() }),
    leased: failure(
      'The rollout has 2 samples (a, b), and a fetched result has room for one. Register one sample, or have the results sent to callback URLs.',
      'validation_error',
    ),
  },
  {
    situation: 'workflow threw',
    does: { workflow: 'throws' },
    ...failed(thrown('run()', 'boom'), 'agent_error'),
  },
  {
    situation: 'workflow threw a validation error',
    does: { workflow: 'throws a validation error' },
    ...failed(thrown('run()', 'no such tool'), 'validation_error'),
  },
  {
    situation: 'workflow threw something that has no text',
    does: { workflow: 'throws something without text' },
    ...failed('thrown by run(): something without a message was thrown', 'agent_error'),
  },
  {
    situation: 'workflow constructor threw',
    idPrefix: unconstructed,
    ...failed(thrown('the constructor of the workflow', 'not today'), 'agent_error'),
  },
  {
    situation: 'workflow threw a TimeoutError of its own',
    does: { workflow: 'throws a timeout' },
    ...failed(thrown('run()', 'tool too slow'), 'timeout'),
  },
  {
    situation: 'policy refused the call',
    does: { workflow: 'gives the error of the policy a text' },
    request: { chat_completions_url: 'http://127.0.0.1:1/v1' },
    ...failed(thrown('run()', 'the policy is down'), 'http_error'),
  },
  {
    situation: 'policy has an address that the server does not connect to',
    request: { chat_completions_url: 'http://policy.test/v1' },
    ...failed(
      'The policy endpoint was not called: it leads to a link-local, multicast, unspecified or metadata address (http://policy.test/v1/chat/completions).',
      'http_error',
    ),
  },
  {
    situation: 'row does not fit the schema of the workflow',
    does: { count: 'three' },
    ...failed(
      "The row does not fit the workflow's metadata schema: metadata.count: expected a number",
      'validation_error',
    ),
  },
  {
    situation: 'workflow timed out',
    does: { workflow: 'never ends' },
    request: { agent_timeout_sec: 0.02 },
    ...failed('workflow exceeded its 0.02s deadline', 'timeout'),
  },
  {
    situation: 'duplicate sample name',
    does: { workflow: 'names two samples alike' },
    ...failed(thrown('run()', twin), 'validation_error'),
  },
  {
    situation: 'a sample source threw',
    does: { workflow: 'has a source that throws' },
    ...failed(thrown('a sample source', 'the session has ended'), 'agent_error'),
  },
  {
    situation: 'no sample registered',
    does: { workflow: 'registers nothing' },
    ...ungraded(
      'No model call reached the policy. The agent probably still has its old model: give it that of its adapter, and await its run.',
      'validation_error',
      {},
    ),
  },
  {
    situation: 'grader threw',
    does: { grader: 'gives a reward and throws' },
    ...ungraded(thrown('grade()', 'judge fell asleep'), 'agent_error'),
  },
  {
    situation: 'grader gave a sample no reward',
    does: { grader: 'gives nothing' },
    ...ungraded(
      'The grader set no reward. Call ctx.setReward(reward) in grade(), or ctx.removeSample("main") to leave this rollout out.',
      'validation_error',
    ),
  },
  {
    situation: 'grader named an unknown sample',
    does: { grader: 'names an unknown sample' },
    ...ungraded(
      thrown('grade()', 'There is no sample "nope" in this rollout. Its samples are: main.'),
      'validation_error',
    ),
  },
  {
    situation: 'grader gave a reward that is not a number',
    does: { grader: 'gives NaN' },
    ...ungraded(
      thrown('grade()', 'The reward of sample "main" must be a finite number, got NaN.'),
      'validation_error',
    ),
  },
  {
    situation: 'grader timed out',
    does: { grader: 'never ends' },
    request: { grader_timeout_sec: 0.02 },
    ...ungraded('grader exceeded its 0.02s deadline', 'timeout'),
  },
  {
    situation: 'sample removed',
    does: { grader: 'gives a reward and removes the sample' },
    ...graded({ main: sample({ reward: null, remove_sample: true }) }),
  },
  {
    situation: 'no grader',
    entrypoint: 'ungraded',
    ...ungraded(
      'There is no grader, so this rollout has no reward. Export a class that extends Grader or GroupGrader from the entrypoint.',
      'validation_error',
    ),
  },
  {
    situation: 'neither label nor metadata',
    request: { label: null, metadata: null },
    ...ungraded(
      'The row has neither a label nor metadata, so there is nothing to grade against. Add ground_truth or metadata to the dataset.',
      'validation_error',
      {},
    ),
  },
  {
    situation: 'an empty label, which counts as present',
    request: { label: '', metadata: null },
    ...graded(),
  },
  {
    situation: 'empty metadata, which count as present',
    request: { label: null, metadata: {} },
    ...graded(),
  },
  {
    situation: 'no grading requested',
    request: { grader_callback_url: null, grade: false },
    completion: succeeded,
  },
  {
    situation: 'cancelled over the wire',
    meanwhile: 'cancelled',
    ...failed('cancelled', 'agent_error'),
    leased: { status: 'cancelled', err_category: null },
  },
  {
    situation: 'server shut down before the end',
    meanwhile: 'shut down',
    ...failed('rollout server shut down', 'agent_error'),
    lostWith: 'server_shutdown',
  },
  {
    situation: 'server killed and started again with the same outbox',
    meanwhile: 'killed and started again',
    ...failed(restarted, 'agent_error'),
  },
  {
    situation: 'metrics and extra fields without a JSON form',
    does: { workflow: 'has metrics without a JSON form' },
    ...graded({
      main: sample({
        messages: [{ role: 'user', content: 'Is it?' }],
        metrics: { score: 0.5, at: '1970-01-01T00:00:00.000Z', tokens: 12 },
        extra_fields: { kinds: ['a'], by: { b: 1 } },
      }),
    }),
  },
  {
    situation: 'messages that cannot be encoded',
    does: { workflow: 'has messages that cannot be encoded' },
    ...graded({ main: sample({ messages: [] }) }),
  },
  {
    situation: 'workflow called process.exit',
    does: { workflow: 'calls process.exit' },
    ...failed(withPlace('the workflow called process.exit(0)'), 'agent_error'),
  },
  {
    situation: 'workflow threw an uncaught error',
    does: { workflow: 'throws in a timer' },
    ...failed(withPlace('the workflow threw an uncaught error: thrown in a timer'), 'agent_error'),
  },
  {
    situation: 'workflow left a rejection',
    does: { workflow: 'leaves a rejection' },
    ...failed(withPlace('the workflow left a rejection unhandled: forgotten await'), 'agent_error'),
  },
  {
    situation: 'grader called process.exit',
    does: { grader: 'calls process.exit' },
    ...ungraded(withPlace('the grader called process.exit(0)'), 'agent_error'),
  },
  {
    situation: 'grader threw an uncaught error',
    does: { grader: 'throws in a timer' },
    ...ungraded(withPlace('the grader threw an uncaught error: thrown in a timer'), 'agent_error'),
  },
  {
    situation: 'worker lost before it called the policy',
    does: { workflow: 'loses its first worker before it asks' },
    endsProcess: true,
    ...graded(),
  },
  {
    situation: 'two workers lost before they called the policy',
    does: { workflow: 'loses every worker' },
    endsProcess: true,
    ...failed(
      `${killed}; it is the second worker that was lost while it executed this rollout`,
      'agent_error',
    ),
    lostWith: 'worker_lost',
  },
  {
    situation: 'worker lost after it called the policy',
    does: { workflow: 'loses its worker after it asked' },
    endsProcess: true,
    ...failed(
      `${killed}; the rollout had called the policy, so it is not executed again: that would mix two trajectories under one id`,
      'agent_error',
    ),
    lostWith: 'worker_lost',
  },
  {
    situation: 'worker lost while it graded',
    does: { grader: 'loses its worker' },
    endsProcess: true,
    ...ungraded(
      expect.stringMatching(`^${killed}; the samples of the rollout were in it`),
      'agent_error',
    ),
    lostWith: 'worker_lost',
  },
]
