import { setTimeout as sleep } from 'node:timers/promises'

/** Identifies an execution and its process to the policy: all calls of a rollout must come from one execution. */
export function runMark(): string {
  return `${process.pid}-${Math.random().toString(36).slice(2)}`
}

const retained: unknown[] = []

function fail(text: string): never {
  throw new Error(text)
}

const harms = {
  throw: () => fail('thrown'),
  exit: async () => {
    process.exit(0)
    await sleep(60_000)
  },
  timer: async () => {
    setTimeout(() => fail('thrown in a timer'), 1)
    await sleep(60_000)
  },
  rejection: async () => {
    void Promise.reject(new Error('forgotten await'))
    await sleep(60_000)
  },
  hang: async () => sleep(60_000),
  /** Long, but too short to end a worker. */
  pause: () => block(300),
  /** Longer than the lock of a rollout in a queue. */
  stall: () => block(6_000),
  block: () => block(Infinity),
  allocate: () => {
    for (;;) retained.push(Array.from({ length: 10_000 }, (_, n) => ({ n })))
  },
  crash: async () => {
    process.kill(process.pid, 'SIGSEGV')
    await sleep(60_000)
  },
} satisfies Record<string, () => unknown>

/** What user code does to itself or to its process. */
export type Harm = keyof typeof harms

/** When it does so. */
export type HarmedPart = 'before asking' | 'between calls' | 'grading'

/** The metadata of a rollout of the fault run. */
export interface Row {
  /** Number of model calls. */
  readonly calls: number
  readonly harm?: Harm
  readonly when?: HarmedPart
  /** Where the start of the rollout is reported first. */
  readonly noteUrl?: string
  /** How long it waits before its first call. Milliseconds. */
  readonly idleMs?: number
}

/** What a rollout of the fault run does before its first call. */
export async function begin({ noteUrl, idleMs = 0 }: Row, mark: string): Promise<void> {
  // The report may fail.
  if (noteUrl !== undefined) await fetch(noteUrl, { method: 'POST', body: mark }).catch(() => {})
  if (idleMs > 0) await sleep(idleMs)
}

/** Does the harm of the row if it belongs to this part of the rollout. */
export async function harmIn(part: HarmedPart, { harm, when }: Row): Promise<void> {
  if (harm !== undefined && when === part) await harms[harm]()
}

function block(milliseconds: number): void {
  const until = performance.now() + milliseconds
  while (performance.now() < until);
}
