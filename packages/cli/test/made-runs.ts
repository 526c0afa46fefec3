import { createRun, resumeRun, type EndedItem } from '@osmosis/eval'
import type { ItemEvent, RunManifest, RunRow } from '@osmosis/eval/analysis'

import { madeEvent, madeManifest, madeRows } from '../../../test/kit/index.ts'

/** A message or more of a policy that answers, as the steps of a transcript. */
export type Steps = NonNullable<EndedItem['trajectories']>[string]['steps']

/** An item of a run that a test makes; what is left out is that of a short success. */
export interface MadeItem {
  readonly row: number
  readonly attempt: number
  readonly event?: Partial<ItemEvent>
  /** By sample id. Null: nothing was said. */
  readonly samples?: Readonly<Record<string, Steps>> | null
  readonly label?: string
  /** What its model calls gave as their `user-agent`. */
  readonly userAgent?: string
}

/** A run that a test makes. */
export interface MadeRun {
  readonly outputRoot: string
  readonly name: string
  readonly rows: number | readonly RunRow[]
  readonly n?: number
  readonly items: readonly MadeItem[]
  readonly inputs?: Partial<RunManifest['inputs']['model']>
  /** Names of its eval functions. Default: none. */
  readonly scorers?: readonly string[]
  readonly manifest?: Partial<RunManifest>
}

/** Writes a run with the store that writes real ones. Resolves with its folder. */
export async function makeRun(made: MadeRun): Promise<string> {
  const store = await createRun({ outputRoot: made.outputRoot, manifest: manifestOf(made) })
  await Promise.all(made.items.map((item) => store.commit(endedItem(item))))
  await store.close()
  return store.location
}

/** Adds items to an existing run. The caller closes it. */
export async function resumeWith(
  location: string,
  items: readonly MadeItem[],
): ReturnType<typeof resumeRun> {
  const store = await resumeRun({ location })
  await Promise.all(items.map((item) => store.commit(endedItem(item))))
  return store
}

/** Rows of rewards as items; null is a rollout that ran out of time. */
export function rewarded(rewards: readonly (readonly (number | null)[])[]): MadeItem[] {
  return rewards.flatMap((row, at) =>
    row.map((reward, attempt): MadeItem => {
      if (reward !== null) return { row: at, attempt, event: { reward } }
      return { row: at, attempt, event: failure('timeout', 'The workflow exceeded its 2 s.') }
    }),
  )
}

/** The fields of an item that failed. */
export function failure(type: string, message: string): Partial<ItemEvent> {
  const summary = message.slice(0, 160)
  return { status: 'failed', reward: null, error_type: type, error_message: message, summary }
}

function manifestOf({ name, rows, n = 1, inputs, scorers = [], manifest }: MadeRun): RunManifest {
  const base = madeManifest({
    run_name: name,
    inputs: {
      model: inputs ?? {},
      code: { scorers },
      timeouts: { agent_seconds: 120, grader_seconds: null, max_turns: null },
    },
    n,
    rows: typeof rows === 'number' ? madeRows(rows) : rows,
  })
  const provenance = { ...base.provenance, config: 'configs/eval/airline.toml' }
  return { ...base, provenance, ...manifest }
}

function endedItem({ row, attempt, event = {}, samples, label, userAgent }: MadeItem): EndedItem {
  const said = samples === undefined ? { main: shortTalk(row) } : samples
  return {
    event: madeEvent(row, attempt, {
      rollout_id: `rollout-${row}-${attempt}`,
      ...event,
    }),
    trajectories:
      said &&
      Object.fromEntries(
        Object.entries(said).map(([id, steps]) => [
          id,
          {
            schema_version: 'ATIF-v1.7',
            session_id: `${row}-${attempt}`,
            agent: { name: 'airline', version: '1.0.0' },
            steps,
            extra: { osmosis: { sample_extra_fields: { user_agent: userAgent } } },
          },
        ]),
      ),
    graded: label === undefined ? null : { label, metadata: null, artifacts: null, samples: {} },
  }
}

function shortTalk(row: number): Steps {
  return [
    { step_id: 1, source: 'user', message: `Question ${row}` },
    { step_id: 2, source: 'agent', message: `Answer ${row}` },
  ]
}
