import type { CancelDisposition } from '@osmosis/runtime/wire'
import type { LifecycleState, RolloutRequest } from '@osmosis/runtime'

/** How the results of a rollout are handed over. */
export type RolloutKind = 'callbacks' | 'lease'

/** A rollout that is to be accepted. */
export interface RolloutEntry {
  readonly id: string
  readonly kind: RolloutKind
  /** Tells a repetition from another request under the same id. */
  readonly digest: string
  /** What its caller is answered, now and when it asks again. */
  readonly answer: string
  /** Digest of the code that may run it. */
  readonly code: string
  readonly request: RolloutRequest
  /** What a server needs to deliver the outcome; plain data. */
  readonly delivery?: unknown
  /** Whether its grader starts at once. Default: it waits for `allowGrading`. */
  readonly gradesAtOnce?: boolean
  /** From 1 to 2097152: higher numbers come later, and all of them after rollouts without. */
  readonly priority?: number | undefined
  /** Of a lease. */
  readonly lease?: { readonly tokenDigest: string; readonly ms: number }
}

/** What may be there already when a rollout is accepted; without, any number. */
export interface AcceptLimits {
  readonly mostQueued?: number | undefined
}

/** What became of an entry, with the answer of the one that was accepted under its id. */
export interface QueueAcceptance {
  readonly result: 'new' | 'known' | 'contradicted' | 'full'
  readonly answer: string
}

/** A rollout as it stands. Times are milliseconds of the clock of Redis. */
export interface RolloutRecord {
  readonly id: string
  readonly kind: RolloutKind
  readonly status: LifecycleState
  readonly digest: string
  readonly answer: string
  readonly code: string
  /** Grows with each change. */
  readonly version: number
  /** Number of the run that counts; 0 while no worker has taken it. */
  readonly run: number
  /** The worker of that run. */
  readonly worker: string | undefined
  /** How many model calls its executions have started. */
  readonly calls: number
  readonly admittedAt: number
  readonly reward: number | null
  readonly errorMessage: string | null
  /** Whether the outcome of the workflow is there to be read. */
  readonly hasWorkflow: boolean
  readonly mayGrade: boolean
  /** What was delivered, by kind of callback, and with which outcome. */
  readonly delivered: Readonly<Record<string, string>>
  /** What the first who cancelled it was answered. */
  readonly cancelled: Exclude<CancelDisposition, 'not_found'> | undefined
  readonly tokenDigest: string | undefined
  /** Of a lease: when its end was decided, and when that was first fetched. */
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

/** The fields of a record that are read at once: all but the large ones. */
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

/** Version of what servers and workers write for one another: it changes when the other side would misread it. */
const protocolVersion = 3

/** What Redis stores and compares: the digest of user code, and the version of the protocol. */
export function storedCode(code: string): string {
  return `${protocolVersion}:${code}`
}

/** For people, and for those who compare it with their own code. */
export function shownCode(stored: string): string {
  const [, version, code = stored] = /^(\d+):(.*)$/s.exec(stored) ?? []
  return Number(version) === protocolVersion ? code : `${code} (queue protocol ${version})`
}
