import type { LifecycleState, RolloutRequest } from '@osmosis/protocol'
import type { CancelDisposition } from '@osmosis/protocol/wire'

/** How the results of a rollout are delivered. */
type RolloutKind = 'callbacks' | 'lease'

/** A rollout to accept. */
export interface RolloutEntry {
  readonly id: string
  readonly kind: RolloutKind
  /** Distinguishes a repeated request from another one with the same id. */
  readonly digest: string
  /** The answer to its caller, now and for a repeated request. */
  readonly answer: string
  /** Digest of the code that may execute it. */
  readonly code: string
  readonly request: RolloutRequest
  /** What a server needs to deliver the outcome; plain data. */
  readonly delivery?: unknown
  /** Whether its grader starts immediately. Default: it waits for `allowGrading`. */
  readonly gradesAtOnce?: boolean
  /** From 1 to 2097152: higher numbers run later, and all of them after rollouts without a priority. */
  readonly priority?: number | undefined
  /** Token and time limit of a lease. */
  readonly lease?: { readonly tokenDigest: string; readonly ms: number }
}

/** Limits for the acceptance of a rollout. Default: none. */
export interface AcceptLimits {
  readonly mostQueued?: number | undefined
}

/** The result of an acceptance, with the answer of the rollout that was accepted under the id. */
export interface QueueAcceptance {
  readonly result: 'new' | 'known' | 'contradicted' | 'full'
  readonly answer: string
}

/** The record of a rollout. Times are milliseconds of the clock of Redis. */
export interface RolloutRecord {
  readonly id: string
  readonly kind: RolloutKind
  readonly status: LifecycleState
  readonly digest: string
  readonly answer: string
  readonly code: string
  /** Grows with each change. */
  readonly version: number
  /** Number of the current execution; 0 while no worker has taken the rollout. */
  readonly run: number
  /** The worker of that execution. */
  readonly worker: string | undefined
  /** Number of model calls that all its executions have started. */
  readonly calls: number
  readonly admittedAt: number
  readonly reward: number | null
  readonly errorMessage: string | null
  /** Whether the record has the outcome of the workflow. */
  readonly hasWorkflow: boolean
  readonly mayGrade: boolean
  /** How each kind of callback was delivered. */
  readonly delivered: Readonly<Record<string, string>>
  /** The answer to the first cancel. */
  readonly cancelled: Exclude<CancelDisposition, 'not_found'> | undefined
  readonly tokenDigest: string | undefined
  /** Of a lease: when its outcome was decided, and when it was first fetched. */
  readonly endedAt: number | undefined
  readonly fetchedAt: number | undefined
}

/** The callbacks of a rollout. */
const deliveryKinds = ['completion', 'grader'] as const
export type DeliveryKind = (typeof deliveryKinds)[number]

const small = [
  'kind',
  'status',
  'digest',
  'answer',
  'code',
  'version',
  'run',
  'worker',
  'calls',
  'admitted_at',
  'reward',
  'error',
  'settled:workflow',
  'may_grade',
  'token_digest',
  'cancelled',
  'ended_at',
  'fetched_at',
] as const

/** The fields of a record that are always read: all except the large ones. */
export const recordFields: readonly string[] = [
  ...small,
  ...deliveryKinds.map((kind) => `delivered:${kind}`),
]

/** Undefined when there is no record. `values` are those of {@link recordFields}. */
export function readRecord(
  id: string,
  values: readonly (string | null)[],
): RolloutRecord | undefined {
  const field = new Map(recordFields.map((name, n) => [name, values[n] ?? undefined]))
  const text = (name: (typeof small)[number]): string | undefined => field.get(name)
  const number = (name: (typeof small)[number]): number | undefined => {
    const value = text(name)
    return value === undefined ? undefined : Number(value)
  }
  if (text('status') === undefined) return undefined
  const delivered = deliveryKinds.flatMap((kind) => {
    const how = field.get(`delivered:${kind}`)
    return how === undefined ? [] : [[kind, how] as const]
  })
  return {
    id,
    kind: text('kind') as RolloutKind,
    status: text('status') as RolloutRecord['status'],
    digest: text('digest') ?? '',
    answer: text('answer') ?? '',
    code: shownCode(text('code') ?? ''),
    version: number('version') ?? 0,
    run: number('run') ?? 0,
    worker: text('worker'),
    calls: number('calls') ?? 0,
    admittedAt: number('admitted_at') ?? 0,
    reward: number('reward') ?? null,
    errorMessage: text('error') ?? null,
    hasWorkflow: text('settled:workflow') !== undefined,
    mayGrade: text('may_grade') !== undefined,
    delivered: Object.fromEntries(delivered),
    cancelled: text('cancelled') as RolloutRecord['cancelled'],
    tokenDigest: text('token_digest'),
    endedAt: number('ended_at'),
    fetchedAt: number('fetched_at'),
  }
}

/** Version of the records. It changes when servers and workers of the previous version would misread them. */
const protocolVersion = 3

/** The stored form of a digest of user code, with the version of the records. */
export function storedCode(code: string): string {
  return `${protocolVersion}:${code}`
}

/** The digest of user code without the version if that is ours, otherwise with a hint. */
export function shownCode(stored: string): string {
  const [, version, code = stored] = /^(\d+):(.*)$/s.exec(stored) ?? []
  return Number(version) === protocolVersion ? code : `${code} (queue protocol ${version})`
}
