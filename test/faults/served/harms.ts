import { setTimeout as sleep } from 'node:timers/promises'

/** Names a run and its process to the policy: of one rollout, all calls have to come from one run. */
export function runMark(): string {
  return `${process.pid}-${Math.random().toString(36).slice(2)}`
}

const kept: unknown[] = []

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
  /** Long, and yet shorter than what ends a worker. */
  pause: () => block(300),
  /** Longer than the lock of a rollout in a queue. */
  stall: () => block(6_000),
  block: () => block(Infinity),
  allocate: () => {
    for (;;) kept.push(Array.from({ length: 10_000 }, (_, n) => ({ n })))
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
  /** How often the policy is asked. */
  readonly calls: number
  readonly harm?: Harm
  readonly when?: HarmedPart
  /** Where it is noted that the rollout was started, before anything else. */
  readonly noteUrl?: string
  /** How long it waits before its first call. Milliseconds. */
  readonly idleMs?: number
}

/** What a rollout of the fault run does before its first call. */
export async function begin({ noteUrl, idleMs = 0 }: Row, mark: string): Promise<void> {
  // What is noted is of no account.
  if (noteUrl !== undefined) await fetch(noteUrl, { method: 'POST', body: mark }).catch(() => {})
  if (idleMs > 0) await sleep(idleMs)
}

/** Does what the row says of this part of its rollout. */
export async function harmIn(part: HarmedPart, { harm, when }: Row): Promise<void> {
  if (harm !== undefined && when === part) await harms[harm]()
}

function block(milliseconds: number): void {
  const until = performance.now() + milliseconds
  while (performance.now() < until);
}
