// Records what llama.cpp's server answers, for tests that run without it: node test/llama-cpp/record.ts
import { writeFileSync } from 'node:fs'

import { realExchanges } from './real-exchanges.ts'
import { startLoaded } from './shared-server.ts'

const file = new URL('recorded/llama-cpp.json', import.meta.url)
const { server, loading } = await startLoaded()
const exchanges = await realExchanges(server, loading)
await server.kill()
const date = new Date().toISOString().slice(0, 10)
const recording = { date, ...server.facts, exchanges }
writeFileSync(file, `${JSON.stringify(recording, null, 2)}\n`)
