import { readFileSync } from 'node:fs'

import type { VllmAnswers } from './vllm-exchanges.ts'

/** What vLLM answered when `record.ts` was run. */
interface VllmRecording extends VllmAnswers {
  /** The day, as 2026-11-30. */
  readonly date: string
}

const file = new URL('recorded/vllm.json', import.meta.url)

export const vllmRecording = JSON.parse(readFileSync(file, 'utf8')) as VllmRecording
