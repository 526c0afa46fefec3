// Records what llama.cpp's server answers, for tests that run without it: node test/real-server/record.ts
import { writeFileSync } from 'node:fs'

import { startModelServer } from '../kit/model-server/model-server.ts'
import { realExchanges } from './real-exchanges.ts'

const file = new URL('recorded/llama-cpp.json', import.meta.url)
await using server = await startModelServer({ hold: true })
const exchanges = await realExchanges(server)
const date = new Date().toISOString().slice(0, 10)
const recording = { date, ...server.facts, exchanges }
writeFileSync(file, `${JSON.stringify(recording, null, 2)}\n`)
