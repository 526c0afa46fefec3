import type { Trajectory } from '@osmosis/protocol/trajectory'

import type { ItemEvent } from '../analysis/records/item-event.ts'
import { textOf, type StepLike } from '../analysis/trajectory/trajectory-shape.ts'
import type { RunFolder, Stored } from '../store/read/run-folder.ts'
import type { GradedRollout } from '../store/write/run-store.ts'

/** A rollout that passed, with what is stored of it. */
export interface AuditedPass {
  readonly event: ItemEvent
  /** `found` when its conversations are stored. */
  readonly stored: Stored<unknown>['state']
  /** Those in training, by sample id. */
  readonly conversations: readonly (readonly [sampleId: string, Trajectory])[]
  /** Null when no samples are stored. */
  readonly graded: GradedRollout | null
  /** The label of the row; null without one. */
  readonly label: string | null
}

export async function readPass(
  run: RunFolder,
  event: ItemEvent,
  label: string | null,
): Promise<AuditedPass> {
  const [trajectories, samples] = await Promise.all([run.trajectories(event), run.graded(event)])
  const graded = samples.state === 'found' ? samples.value : null
  const all = trajectories.state === 'found' ? Object.entries(trajectories.value) : []
  return {
    event,
    stored: trajectories.state,
    conversations: all.filter(([id]) => graded?.samples[id]?.removed !== true),
    graded,
    label,
  }
}

/** The label of the row of an item; null when it has none, or it is not stored. */
export async function readLabel(run: RunFolder, event: ItemEvent): Promise<string | null> {
  const samples = await run.graded(event)
  if (samples.state === 'found') return textIn(samples.value.label)
  const trajectories = await run.trajectories(event)
  const all = trajectories.state === 'found' ? Object.values(trajectories.value) : []
  return textIn(all.map(({ extra }) => osmosisFields(extra)['label'])[0])
}

function textIn(label: unknown): string | null {
  return typeof label === 'string' && label.trim() !== '' ? label.trim() : null
}

/** The fields of this SDK in a document. */
export function osmosisFields(extra: Trajectory['extra']): Readonly<Record<string, unknown>> {
  const fields = extra?.['osmosis']
  return typeof fields === 'object' && fields !== null ? { ...fields } : {}
}

/** The last step of the policy; undefined for none. */
export function lastAnswer(conversation: Trajectory): Trajectory['steps'][number] | undefined {
  return conversation.steps.findLast(({ source }) => source === 'agent')
}

/** The text of a step, without white space around it. */
export function stepText({ message }: Pick<StepLike, 'message'>): string {
  return textOf(message).trim()
}

/** Part of a text around a place, on one line. */
export function excerpt(text: string, at: number, length: number): string {
  const [from, to] = [Math.max(0, at - 40), at + Math.min(length, 80) + 40]
  const part = text.slice(from, to).replaceAll(/\s+/g, ' ').trim()
  return `${from > 0 ? '…' : ''}${part}${to < text.length ? '…' : ''}`
}
