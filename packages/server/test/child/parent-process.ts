import path from 'node:path'

import { reportOf } from '@osmosis/protocol'
import { createWorkerPool } from '@osmosis/server/child'

import { containUserCode } from '../../src/containment/contain-user-code.ts'

// A process with a pool: prints the ids of its workers, then how each rollout ended.
const [policyUrl = '', ...does] = process.argv.slice(2)

// As a server does.
containUserCode({
  onUnattributed: (error) => {
    console.log(String(error))
    process.exit(1)
  },
})
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => console.log(`parent got ${signal}`))
}
const pool = await createWorkerPool({
  module: path.join(import.meta.dirname, 'harmful-worker.ts'),
  workers: does.length,
})
console.log(JSON.stringify(pool.workerPids))
await Promise.all(
  does.map(async (content, index) => {
    const events = pool.execute({
      rolloutId: `rollout-${index}`,
      initialMessages: [{ role: 'user', content }],
      label: null,
      metadata: null,
      chatCompletionsUrl: policyUrl,
      apiKey: undefined,
      agentTimeoutSeconds: null,
      graderTimeoutSeconds: null,
      grade: false,
    })
    console.log((await reportOf(events)).workflow.status)
  }),
)
await pool.close()
