import { crc32 } from 'node:zlib'

import { z } from 'zod'

import type { ItemEvent } from '../analysis/item-event.ts'

const count = z.int().min(0)
const byName = z.record(z.string(), z.number())
const place = z.tuple([count, count, count, count]).nullable()

const itemEvent: z.ZodType<ItemEvent> = z.object({
  row_index: count,
  run_index: count,
  source_row_index: count,
  model_tag: z.enum(['primary', 'baseline']).exactOptional(),
  rollout_id: z.string(),
  status: z.enum(['success', 'failed', 'skipped']),
  reward: z.number().nullable(),
  tokens: z.number().nullable(),
  duration_ms: z.number(),
  error_type: z.string().nullable(),
  error_message: z.string().nullable(),
  row_key: z.string(),
  samples: z.record(z.string(), z.number().nullable()),
  scores: byName.exactOptional(),
  score_errors: z.record(z.string(), z.string()).exactOptional(),
  prompt_tokens: z.number().nullable(),
  completion_tokens: z.number().nullable(),
  cost_usd: z.number().nullable(),
  calls: count,
  tool_calls: count,
  tool_errors: count,
  finish: byName,
  rewritten: count,
  tools: z.array(z.object({ name: z.string(), calls: count, errors: count })),
  metrics: byName,
  grading_ms: z.number().nullable(),
  summary: z.string(),
  ended_at: z.string(),
  at: place,
  sat: place,
})

/** An event as a line of a journal: its JSON, in which the last key is the CRC-32 of all before it. */
export function toJournalLine(event: ItemEvent): string {
  const text = JSON.stringify(event).slice(0, -1)
  return `${text},"crc32":${crc32(text)}}`
}

/** The event of a line; undefined when it is not what was written. */
export function fromJournalLine(line: string): ItemEvent | undefined {
  const at = line.lastIndexOf(',"crc32":')
  if (at === -1) return undefined
  const text = line.slice(0, at)
  if (line.slice(at) !== `,"crc32":${crc32(text)}}`) return undefined
  try {
    return itemEvent.safeParse(JSON.parse(`${text}}`)).data
  } catch {
    return undefined
  }
}
