import { readFileSync } from 'node:fs'

import type { ModelServerFacts } from '../kit/model-server/model-server.ts'
import type { RealExchange } from './real-exchange.ts'
import type { RealRequest } from './real-exchanges.ts'

/** What a real server answered when `record.ts` was run. */
interface Recording extends ModelServerFacts {
  /** The day, as 2026-11-30. */
  readonly date: string
  readonly exchanges: Readonly<Record<RealRequest, RealExchange>>
}

const file = new URL('recorded/llama-cpp.json', import.meta.url)

export const recording = JSON.parse(readFileSync(file, 'utf8')) as Recording
