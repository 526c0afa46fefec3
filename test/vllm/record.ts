// Records what vLLM answers, for tests that run without it: node test/vllm/record.ts
import { rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { vllmAnswers } from './vllm-exchanges.ts'
import { smallModel } from './vllm-server.ts'

const file = new URL('recorded/vllm.json', import.meta.url)
const model = await smallModel()
try {
  const answers = await vllmAnswers(model)
  const date = new Date().toISOString().slice(0, 10)
  writeFileSync(file, `${JSON.stringify({ date, ...answers }, null, 2)}\n`)
} finally {
  rmSync(path.dirname(model), { recursive: true, force: true })
}
